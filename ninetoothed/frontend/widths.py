"""Find numbers made of sizes and counters that 32 bits may not hold: calls in which they do not are traced in 64 bits.

y = ntl.sum(x) / (a.source.shape[0] * b.source.shape[0])    of 70,000 by 70,000, say
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ninetoothed import dtypes, ir
from ninetoothed.expr import Expr, Var, bounds, const, maximum
from ninetoothed.frontend.context import TraceContext

GREATEST = 2**31 - 1


def widths(context: TraceContext, body: ir.Block) -> tuple[ir.Requirement, ...]:
    """Require that 32 bits hold each number that is computed from sizes, program indices and counters."""
    if context.builder.index_type != dtypes.int32:
        return ()
    loops = [operation for operation in ir.walk(body) if isinstance(operation, ir.For)]
    last = {axis: size - 1 for axis, size in zip(context.axes, context.grid, strict=True)}
    last |= {loop.variable: loop.start if loop.step.constant_term < 0 else loop.stop - 1 for loop in loops}
    found: dict[Expr, ir.Requirement] = {}
    for operation in ir.walk(body):
        if isinstance(operation, ir.Index) and not operation.lanes:
            for part in _parts(operation.expr):
                most = _greatest(part, last)
                if most is not None and most.variables <= context.builder.sizes and not _fits(most, context):
                    width = maximum(maximum(most, -most), GREATEST)
                    message = f"{part} does not fit into 32 bits"
                    known = ir.Requirement(width, const(GREATEST), message, operation.location, is_width=True)
                    found.setdefault(most, known)
    return tuple(found.values())


def _parts(e: Expr) -> Iterator[Expr]:
    """The expression, and what is divided or compared in it: sums and products may overflow on the way."""
    yield e
    for atom in e.atoms:
        for part in atom.operands:
            yield from _parts(part)


def _greatest(e: Expr, last: Mapping[str, Expr]) -> Expr | None:
    """The greatest value of an expression over all programs and rounds; None where it is not seen."""
    while names := e.variables & last.keys():
        if any(c < 0 or not all(isinstance(atom, Var) for atom in atoms) for atoms, c in e.terms if atoms):
            return None
        e = e.subs({name: last[name] for name in names})
    return e


def _fits(e: Expr, context: TraceContext) -> bool:
    """Tell whether 32 bits hold an expression of sizes that are each less than 2^31."""
    low, high = bounds(e, context.facts)
    if low is not None and high is not None:
        return -GREATEST <= low and high <= GREATEST
    return isinstance(e.sole_atom, Var)

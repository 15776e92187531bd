"""Choose the numbers that loads hold past the ends of tiles: those that most uses need there.

x = load(x_ptr + lane, mask=lane < n)          x = load(x_ptr + lane, mask=lane < n, other=-inf)
y = max(where(lane < n, x, -inf))          ->  y = max(x)
z = sum(where(lane < n, exp(x - y), 0))        z = sum(exp(x - y))

The choice is a guess: a number that does not serve a use costs a mask, and never changes a result.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ninetoothed import ir
from ninetoothed.dtypes import PointerType, int1
from ninetoothed.expr import simplify
from ninetoothed.ir import Value
from ninetoothed.ir.dataflow import Dataflow
from ninetoothed.ir.lanes import with_lanes
from ninetoothed.language.primitive import Number
from ninetoothed.passes.overhang import contents, reductions
from ninetoothed.passes.overhang.edges import rounding

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter

# Of x in `max(x + 1)`: (x + 1, -inf). If x holds -inf past the end, so does x + 1, which `max` needs.
Needs = frozenset[tuple[Value, Number]]


def chosen(rewriter: OverhangRewriter) -> dict[Value, Number]:
    """Choose what loads hold past ends, where they may hold any number."""
    needs, found = _Needs(rewriter), {}
    needs.run(rewriter.program.body)
    for load in ir.walk(rewriter.program.body):
        if isinstance(load, ir.Load) and _is_free(rewriter, load):
            served = Counter(number for _, number in needs.facts.get(load.result, ()))
            found[load.result] = max(_numbers(load.result), key=lambda number: served[number])
    return found


def _numbers(value: Value) -> tuple[Number, ...]:
    """List the numbers to choose from, in the order of preference."""
    dtype = value.type.dtype
    return () if isinstance(dtype, PointerType) else (0, *dtype.range)


def _is_free(rewriter: OverhangRewriter, load: ir.Load) -> bool:
    """Tell whether a load may hold any number past the end, as all out of bounds is overhang, and a use reads that."""
    access, facts = load.access, with_lanes(rewriter.facts, load.access.type.axes)
    edges = (*rewriter.edges_of(access), *rounding(access.type, facts))
    remaining = {edge.remaining for edge in edges if not edge.reached}
    is_overhang = all(not g.lower and simplify(g.size - g.index, facts) in remaining for g in access.guards)
    is_seen = any(edge.fails and rewriter.is_seen(load.result, edge) for edge in edges)
    return bool(access.guards) and access.other == 0 and is_overhang and is_seen


@dataclass(eq=False)
class _Needs(Dataflow[Needs]):
    """Follows what uses need of values, from the last use to the first."""

    rewriter: OverhangRewriter
    backwards = True

    def join(self, known: Needs | None, fact: Needs) -> Needs:
        return fact | (known or frozenset())

    def follow(self, operation: ir.Operation) -> None:
        if not isinstance(operation, ir.Apply):
            return
        needed = reductions.needed(operation)
        if needed is not None and not operation.primitive.is_scan:
            for value in operation.operands[:2]:
                self.note(value, frozenset(((value, needed),)))
        wanted = [need for result in operation.results for need in self.facts.get(result, ())]
        # What is not known is taken to be 0, as in loads.
        known = [self.rewriter.numbers.get(v, None if v.type.dtype == int1 else 0) for v in operation.operands]
        for value in operation.operands if wanted else ():
            for number in _numbers(value):
                held = [number if v is value else n for v, n in zip(operation.operands, known, strict=True)]
                image = contents.computed(operation, held)
                self.note(value, frozenset((use, number) for use, needed in wanted if needed == image))

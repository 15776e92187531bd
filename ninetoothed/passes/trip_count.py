"""Pass: mark a loop of one round at most, such as one that peeling has left: it is not pipelined.

    for j in range(n // 64, tl.cdiv(n, 64)):
->  for j in tl.range(n // 64, tl.cdiv(n, 64), num_stages=1):

There is nothing to load ahead, and a pipeline takes instructions, registers and shared memory. For two rounds gain and
cost are equal. Where all loads are TMA's, the loop becomes a branch:

->  j = n // 64
    if j < tl.cdiv(n, 64):

That takes even fewer registers. Loads by threads would get another layout in a branch. A loop that loads vectors beside
TMA's tiles, as gradients of attention do, stays as it is: copies run on while threads load the vectors (.73 of the time
on an H200; with whole tiles loaded by threads, as masks are, 1.02 to 1.05 of it).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.expr import Expr, Facts, FloorDiv, Max, Min, is_nonnegative


def mark(program: ir.Program, tma_tiles: Container[ir.Operation]) -> ir.Program:
    """Mark the loops of a program that are not to be pipelined."""
    return replace(program, body=_Marker(facts=program.facts, tma_tiles=tma_tiles).block(program.body))


@dataclass(kw_only=True)
class _Marker(ir.Rewriter):
    facts: Facts
    tma_tiles: Container[ir.Operation]

    def operation(self, operation: ir.Operation) -> ir.Block:
        (new,) = super().operation(operation)
        if not isinstance(new, ir.For) or not _is_single(new, self.facts):
            return (new,)
        loads = [inner for inner in ir.walk(new.body) if isinstance(inner, ir.Load)]
        copied = [load in self.tma_tiles for load in loads]
        if not new.hints and loads and all(copied):
            return (replace(new, is_branch=True),)
        if any(copied) and any(map(_is_vector, loads)):
            return (new,)
        return (replace(new, hints=tuple(({"num_stages": 1} | dict(new.hints)).items())),)


def _is_vector(load: ir.Load) -> bool:
    return sum(count > 1 for count in load.access.type.lanes) == 1


def _is_single(loop: ir.For, facts: Facts) -> bool:
    """Tell whether a loop is proved to take one round at most, and Triton cannot see that by itself."""
    if not loop.step.is_constant or loop.step.constant < 0:
        return False
    is_known = (loop.stop - loop.start).is_constant  # then Triton knows it, too
    return not is_known and has_at_most(1, loop, facts)


def has_at_most(rounds: int, loop: ir.For, facts: Facts) -> bool:
    """Tell whether a loop that counts up is proved to take no more rounds."""
    return is_at_least(loop.start + loop.step * rounds, loop.stop, facts)


def is_at_least(a: Expr, b: Expr, facts: Facts) -> bool:
    """Tell whether `a >= b` is proved, for each operand of minima in `a` by itself."""
    return all(any(is_nonnegative(case - bound, facts) for bound in _bounds_above(b)) for case in _cases(a))


def _cases(e: Expr) -> Iterator[Expr]:
    """Yield expressions of which `e` is always one: a minimum is one of its operands, also where it is divided."""
    for monomial, coefficient in e.terms:
        match monomial:
            case (Min(operands) | Max(operands),):
                ones = operands
            case (FloorDiv(numerator, denominator),) if len(parts := tuple(_cases(numerator))) > 1:
                ones = tuple(part // denominator for part in parts)
            case _:
                continue
        rest = e - Expr(((monomial, coefficient),))
        for one in ones:
            yield from _cases(rest + one * coefficient)
        return
    yield e


def _bounds_above(e: Expr) -> Iterator[Expr]:
    """Yield expressions that are at least `e`: a minimum is at most each of its operands, also where it is divided."""
    for monomial, coefficient in e.terms:
        if len(monomial) > 1 or coefficient < 0:
            continue
        rest = e - Expr(((monomial, coefficient),))
        larger: Iterable[Expr]
        match monomial:
            case (Min(operands),):
                larger = operands
            case (FloorDiv(numerator, denominator),):
                larger = (bound // denominator for bound in _bounds_above(numerator) if bound != numerator)
            case _:
                continue
        for operand in larger:
            yield from _bounds_above(rest + operand * coefficient)
    yield e

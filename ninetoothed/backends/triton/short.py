"""Pass: a loop that takes up what another has left, a round or two, is not pipelined.

    for j in range(n // 64, tl.cdiv(n, 64)):
->  for j in tl.range(n // 64, tl.cdiv(n, 64), num_stages=1):

There is nothing to load ahead, and doing so takes instructions, registers and shared memory. A loop from a number that
is known when compiling is left alone: it does all there is to do, and two rounds of it may well overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ninetoothed import ir
from ninetoothed.expr import Expr, Facts, FloorDiv, Max, Min, is_nonnegative

_FEW = 2


def hints(loop: ir.For, facts: Facts) -> Mapping[str, object]:
    """The keywords of `tl.range` for a loop: the user's own, and `num_stages=1` for one that is short."""
    return ({"num_stages": 1} if _is_rest(loop, facts) else {}) | dict(loop.hints)


def _is_rest(loop: ir.For, facts: Facts) -> bool:
    if loop.start.is_constant or loop.bindings or not loop.step.is_constant or loop.step.constant < 0:
        return False
    return has_at_most(_FEW, loop.start, loop.stop, loop.step, facts)


def has_at_most(rounds: int, start: Expr, stop: Expr, step: Expr, facts: Facts) -> bool:
    """Whether a loop is proved to take no more rounds; `step` is positive."""
    return all(
        any(is_nonnegative(first + rounds * step - last, facts) for last in _bounds_above(stop))
        for first in _cases(start)
    )


def _cases(e: Expr) -> Iterator[Expr]:
    """Expressions of which `e` is always one: a minimum is one of its operands."""
    for monomial, coefficient in e.terms:
        if len(monomial) == 1 and isinstance(monomial[0], Min | Max):
            rest = e - Expr(((monomial, coefficient),))
            for operand in monomial[0].operands:
                yield from _cases(rest + operand * coefficient)
            return
    yield e


def _bounds_above(e: Expr) -> Iterator[Expr]:
    """Expressions that are at least `e`: a minimum is at most each of its operands, also where it is divided."""
    for monomial, coefficient in e.terms:
        if len(monomial) > 1 or coefficient < 0:
            continue
        rest = e - Expr(((monomial, coefficient),))
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

"""Guards: the bounds under which an access is in bounds, or a lane an element, and which of them others imply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ninetoothed.expr import Expr, Facts, const, is_nonnegative


@dataclass(frozen=True)
class Guard:
    """The access is in bounds only if `0 <= index` (where `lower`) and `index < size` (where `upper`)."""

    index: Expr
    size: Expr
    lower: bool = True
    upper: bool = True

    @property
    def parts(self) -> tuple[Expr, ...]:
        """The expressions of which it is made."""
        return self.index, self.size

    @property
    def variables(self) -> frozenset[str]:
        """The names on which it depends."""
        return frozenset().union(*(part.variables for part in self.parts))

    @property
    def range(self) -> tuple[Expr, Expr | None, Expr | None]:
        """The index, with its least and greatest number."""
        return self.index, const(0) if self.lower else None, self.size - 1 if self.upper else None

    def at(self: _Guard, at: Callable[[Expr], Expr]) -> _Guard:
        """Return it with other expressions."""
        return replace(self, index=at(self.index), size=at(self.size))

    def unproved(self: _Guard, facts: Facts) -> tuple[_Guard, ...]:
        """Return it with those of its sides that are not proved; () if all are."""
        lower = self.lower and not is_nonnegative(self.index, facts)
        upper = self.upper and not is_nonnegative(self.size - 1 - self.index, facts)
        return (replace(self, lower=lower, upper=upper),) if lower or upper else ()

    def holds(self, facts: Facts) -> bool:
        """Tell whether it is proved."""
        return not self.unproved(facts)


_Guard = TypeVar("_Guard", bound=Guard)


@dataclass(frozen=True)
class Edge(Guard):
    """The end of a dimension that `tile` cuts. A lane is past it, and so overhang, where `index >= size`.

    reached: guards of the steps after that `tile`. Where one fails, the program reached for padding or for a missing
        tile, and the lane does not belong to the tile. fails: whether an index may lie past the end at all.
    cut: the number of the step that cuts, and the dimension. uniform: the axes of the tile along which the end lies
        although the index is the same in all of their lanes; see `lowering.with_axes`.
    """

    lower: bool = False
    reached: tuple[Guard, ...] = ()
    fails: bool = True
    cut: tuple[int, int] = field(default=(0, 0), compare=False)
    uniform: frozenset[int] = frozenset()

    def at(self, at: Callable[[Expr], Expr]) -> Edge:
        reached = tuple(guard.at(at) for guard in self.reached)
        return replace(self, index=at(self.index), size=at(self.size), reached=reached)


def unimplied(
    guards: tuple[_Guard, ...], facts: Facts, are_beside: Callable[[_Guard, _Guard], bool] = lambda guard, other: True
) -> tuple[_Guard, ...]:
    """Drop guards that those beside them imply: a bound on an element's index often bounds the number of its tile.

    o < cdiv(s, b), o * b + n < s  ->  o * b + n < s        for any n >= 0
    """
    # Of equal ones the last is kept: also where they hold nowhere, so that nothing follows from one.
    kept = tuple(dict.fromkeys(guards[::-1]))[::-1]
    for guard in kept if len(kept) > 1 else ():
        known = facts
        for other in kept:
            # Each is assumed by itself, since it may have been proved in part with the help of others.
            if other is not guard and are_beside(guard, other):
                known = known.assume(*other.range)
        if known is not facts and guard.holds(known):
            kept = tuple(other for other in kept if other is not guard)
    return kept

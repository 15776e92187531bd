"""Define `Condition`: a comparison of sizes, whose truth only a call tells."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from ninetoothed.arrangement.without_value import BRANCH
from ninetoothed.errors import ArrangementTypeError, arrangement_error
from ninetoothed.expr import Expr, as_expr

if TYPE_CHECKING:
    from ninetoothed.arrangement.symbol import Symbol

OPERATIONS: dict[str, ast.cmpop] = {"<": ast.Lt(), "<=": ast.LtE(), ">": ast.Gt(), ">=": ast.GtE()}
# Each holds where this is 0 or more.
_GAPS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "<": lambda left, right: right - left - 1,
    "<=": lambda left, right: right - left,
    ">": lambda left, right: left - right - 1,
    ">=": lambda left, right: left - right,
}


@dataclass(frozen=True)
class Comparison:
    """Two sizes and the sign between them."""

    left: int | Symbol
    sign: str
    right: int | Symbol

    @property
    def truth(self) -> bool | None:
        """Tell whether it holds; None where only a call tells."""
        gap = _GAPS[self.sign](as_expr(self.left), as_expr(self.right))
        return gap.constant >= 0 if gap.is_constant else None

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


@dataclass(frozen=True, repr=False)
class Condition:
    """A comparison of sizes, as `x.shape[0] < 5` makes it, or several that must all hold, joined by `&`.

    Where no call is needed to tell, it has a truth value; elsewhere to ask for it, as `if` does, is an
    `ArrangementTypeError`.

    >>> from ninetoothed import Symbol
    >>> n = Symbol("n")
    >>> (n > 4) & (n < 9)
    (n > 4) & (n < 9)
    >>> ((n > 4) & (n < 9)).subs({"n": 6}), bool(n < n + 1)
    (True, True)
    """

    comparisons: tuple[Comparison, ...]

    @overload
    def __and__(self, other: Condition) -> Condition: ...
    @overload
    def __and__(self, other: bool) -> Condition | bool: ...
    def __and__(self, other: Condition | bool) -> Condition | bool:
        if isinstance(other, bool):  # a comparison of sizes that are numbers
            return self if other else False
        if not isinstance(other, Condition):
            return NotImplemented
        return Condition((*self.comparisons, *other.comparisons))

    def __rand__(self, other: bool) -> Condition | bool:
        return self & other if isinstance(other, bool) else NotImplemented

    @property
    def truth(self) -> bool | None:
        """Tell whether it holds; None where only a call tells."""
        found = {comparison.truth for comparison in self.comparisons}
        return False if False in found else None if None in found else True

    def __bool__(self) -> bool:
        if self.truth is None:
            what = f"`{self}` has no value before a call, so it is neither true nor false"
            raise arrangement_error(what, BRANCH, ArrangementTypeError)
        return self.truth

    def names(self) -> set[Symbol]:
        """Return the names in it, as symbols."""
        sides = (side for each in self.comparisons for side in (each.left, each.right))
        return {name for side in sides if not isinstance(side, int) for name in side.names()}

    def subs(self, values: Mapping[str, int | Symbol]) -> Condition | bool:
        """Replace names by numbers or symbols; a `bool` where no call is needed any more to tell."""

        def replaced(side: int | Symbol) -> int | Symbol:
            return side if isinstance(side, int) else side.subs(values)

        comparisons = (Comparison(replaced(each.left), each.sign, replaced(each.right)) for each in self.comparisons)
        condition = Condition(tuple(comparisons))
        return condition if condition.truth is None else condition.truth

    def __repr__(self) -> str:
        texts = [str(comparison) for comparison in self.comparisons]
        return " & ".join(f"({text})" for text in texts) if len(texts) > 1 else texts[0]

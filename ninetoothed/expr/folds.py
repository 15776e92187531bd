"""Folds of expressions: one walk, bottom up, that gives each form a meaning."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Algebra(Protocol[T]):
    """The meaning of each form, for `Expr.fold`.

    `add`, `minimum` and `maximum` get at least two operands, and `mul` gets nothing that a factor alone or a constant
    would say.
    """

    def const(self, n: int, /) -> T: ...
    def var(self, name: str, /) -> T: ...
    def add(self, operands: list[T], /) -> T: ...
    def mul(self, coefficient: int, factors: list[T], /) -> T: ...
    def floordiv(self, a: T, b: T, /) -> T: ...
    def mod(self, a: T, b: T, /) -> T: ...
    def minimum(self, operands: list[T], /) -> T: ...
    def maximum(self, operands: list[T], /) -> T: ...


@dataclass(frozen=True)
class Evaluation:
    """Evaluate an expression by Python's operators, for values of its variables: numbers, or arrays by subclasses."""

    values: Mapping[str, Any]

    def const(self, n: int) -> Any:
        return n

    def var(self, name: str) -> Any:
        return self.values[name]

    def add(self, operands: list[Any]) -> Any:
        return sum(operands)

    def mul(self, coefficient: int, factors: list[Any]) -> Any:
        return math.prod(factors, start=coefficient)

    def floordiv(self, a: Any, b: Any) -> Any:
        return a // b

    def mod(self, a: Any, b: Any) -> Any:
        return a % b

    def minimum(self, operands: list[Any]) -> Any:
        return min(operands)

    def maximum(self, operands: list[Any]) -> Any:
        return max(operands)

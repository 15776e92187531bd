"""Evaluate sizes: formulas for the sizes of a call, and powers of two."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ninetoothed.expr.algebra import Expr


def power_below(n: int) -> int:
    """The largest power of two that is at most n."""
    return 1 << max(n.bit_length() - 1, 0)


def power_above(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << max(n - 1, 0).bit_length()


def evaluate(e: Expr, values: Mapping[str, int]) -> int:
    """A size in numbers; a name without a value counts as 1, and a quotient by 0 as 0."""
    return e.fold(_Numbers(values))


@dataclass(frozen=True)
class _Numbers:
    values: Mapping[str, int]

    def const(self, value: int) -> int:
        return value

    def var(self, name: str) -> int:
        return self.values.get(name, 1)

    def add(self, operands: list[int]) -> int:
        return sum(operands)

    def mul(self, coefficient: int, factors: list[int]) -> int:
        return coefficient * math.prod(factors)

    def floordiv(self, numerator: int, denominator: int) -> int:
        return numerator // denominator if denominator else 0

    def mod(self, numerator: int, denominator: int) -> int:
        return numerator % denominator if denominator else 0

    def minimum(self, operands: list[int]) -> int:
        return min(operands)

    def maximum(self, operands: list[int]) -> int:
        return max(operands)

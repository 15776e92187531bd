"""Evaluate sizes: formulas for the sizes of a call, and powers of two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ninetoothed.expr.algebra import Expr
from ninetoothed.expr.folds import Evaluation


def power_below(n: int) -> int:
    """Return the largest power of two that is at most n."""
    return 1 << max(n.bit_length() - 1, 0)


def power_above(n: int) -> int:
    """Return the smallest power of two that is at least n."""
    return 1 << max(n - 1, 0).bit_length()


def evaluate(e: Expr, values: Mapping[str, int]) -> int:
    """Evaluate a size; a name without a value counts as 1, and a quotient by 0 as 0."""
    size: int = e.fold(_Sizes(values))
    return size


class _Sizes(Evaluation):
    def var(self, name: str) -> Any:
        return self.values.get(name, 1)

    def floordiv(self, a: int, b: int) -> int:
        return a // b if b else 0

    def mod(self, a: int, b: int) -> int:
        return a % b if b else 0

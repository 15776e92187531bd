"""Evaluate integer expressions over numbers and int64 tensors; in a sum, smaller operands are added first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

import torch

from ninetoothed.expr import Expr
from ninetoothed.expr.folds import Evaluation

Integers = int | torch.Tensor


class _Broadcasting(Evaluation):
    def add(self, operands: list[Integers]) -> Integers:
        return super().add(sorted(operands, key=_extent))

    def mul(self, coefficient: int, factors: list[Integers]) -> Integers:
        return super().mul(coefficient, sorted(factors, key=_extent))

    def floordiv(self, a: Integers, b: Integers) -> Integers:
        return a // _at_least_one(b)

    def mod(self, a: Integers, b: Integers) -> Integers:
        return a % _at_least_one(b)

    def minimum(self, operands: list[Integers]) -> Integers:
        return reduce(lambda a, b: _extreme(min, torch.minimum, a, b), operands)

    def maximum(self, operands: list[Integers]) -> Integers:
        return reduce(lambda a, b: _extreme(max, torch.maximum, a, b), operands)


def _extent(value: Integers) -> int:
    return value.numel() if isinstance(value, torch.Tensor) else 0


def _at_least_one(divisor: Integers) -> Integers:
    """Replace a divisor of 0 by 1. Divisors are sizes: where one is 0 nothing is in bounds, and no quotient matters."""
    return divisor.clamp_min(1) if isinstance(divisor, torch.Tensor) else max(divisor, 1)


def _extreme(of_numbers: Callable, of_tensors: Callable, a: Integers, b: Integers) -> Integers:
    if devices := [x.device for x in (a, b) if isinstance(x, torch.Tensor)]:
        return of_tensors(*(torch.as_tensor(x, dtype=torch.int64, device=devices[0]) for x in (a, b)))
    return of_numbers(a, b)


def evaluate(expr: Expr, values: Mapping[str, Integers]) -> Integers:
    """Evaluate an expression; the result is a tensor if one of its variables is."""
    if expr.is_constant:
        return expr.constant
    return expr.fold(_Broadcasting(values))

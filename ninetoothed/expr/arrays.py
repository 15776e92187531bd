"""Evaluate expressions for many values of their variables at once, held in NumPy arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy

from ninetoothed.expr.folds import Evaluation


class Arrays(Evaluation):
    """Evaluate an expression for all elements at once."""

    def floordiv(self, a: Any, b: Any) -> Any:
        return a // numpy.maximum(b, 1)  # a divisor of 0 is an empty dimension's size: there is no element

    def mod(self, a: Any, b: Any) -> Any:
        return a % numpy.maximum(b, 1)

    def minimum(self, operands: list[Any]) -> Any:
        return functools.reduce(numpy.minimum, operands)

    def maximum(self, operands: list[Any]) -> Any:
        return functools.reduce(numpy.maximum, operands)

"""Contents of overhang: the number that a result holds there, from those of its operands; None where unknown."""

from __future__ import annotations

import math
import operator

from ninetoothed import ir
from ninetoothed.dtypes import DType, int1

Number = int | float | bool

# Those that every type has exactly, so that no rounding is to be thought of.
_EXACT = (0, 1, -1, math.inf, -math.inf)

_UNARY = {
    "exp": math.exp, "exp2": lambda x: math.pow(2, x), "log": lambda x: math.log(x) if x else -math.inf,
    "log2": lambda x: math.log2(x) if x else -math.inf, "sqrt": math.sqrt, "tanh": math.tanh, "erf": math.erf,
    "sigmoid": lambda x: 0.0 if x == -math.inf else 1 / (1 + math.exp(-x)), "neg": operator.neg, "abs": abs,
    "invert": operator.not_,
}  # fmt: skip
_BINARY = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "maximum": max, "minimum": min,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def computed(operation: ir.Apply, held: list[Number | None]) -> Number | None:
    """The number that an element-wise operation makes of those that its operands hold."""
    dtype, function = operation.results[0].type.dtype, operation.function
    if function in ("and", "or") and dtype == int1:
        decisive = function == "or"
        return decisive if decisive in held else None if None in held else not decisive
    if function == "where":
        condition, then, otherwise = held
        if condition is None:
            return then if then is not None and then == otherwise else None
        return then if condition else otherwise
    if None in held:
        return None
    if function in ("cast", "assign", "full", "broadcast", "expand_dims", "reshape", "permute", "flip"):
        return _exact(held[0], dtype)
    try:
        if function in _UNARY:
            return _exact(_UNARY[function](held[0]), dtype)
        if function in _BINARY:
            return _exact(_BINARY[function](*held), dtype)
    except (ArithmeticError, ValueError):
        pass
    return None


def _exact(number: Number, dtype: DType) -> Number | None:
    if dtype == int1:
        return bool(number)
    if dtype.is_floating:
        return float(number) if number in _EXACT else None
    if not getattr(dtype, "is_integer", False) or not math.isfinite(number):
        return None
    low, high = dtype.range
    return int(number) if low <= number <= high else None


def identity(function: str, dtype: DType) -> Number | None:
    """The number that a reduction may take in without a difference."""
    low, high = (-math.inf, math.inf) if dtype.is_floating else dtype.range
    return {
        "sum": 0, "xor_sum": 0, "cumsum": 0, "cumprod": 1, "max": low, "argmax": low, "min": high, "argmin": high,
    }.get(function)  # fmt: skip


def neutral(operation: ir.Apply, position: int) -> Number | None:
    """The number that, as an operand at a position, leaves the other operand of an operation as it is, NaN too."""
    function, dtype = operation.function, operation.result.type.dtype
    if function in ("maximum", "minimum") and dtype.is_floating and not operation.attribute("propagate_nan"):
        return None  # Of NaN and a number they give the number.
    low, high = (-math.inf, math.inf) if dtype.is_floating else getattr(dtype, "range", (None, None))
    if function in ("sub", "truediv") and position == 0:
        return None
    return {
        "add": 0, "sub": 0, "mul": 1, "truediv": 1, "maximum": low, "minimum": high, "or": 0, "xor": 0,
        "and": True if dtype == int1 else None,
    }.get(function)  # fmt: skip

"""Contents of overhang: the number that a result holds there, from those of its operands; None where unknown."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from ninetoothed import ir
from ninetoothed.dtypes import DType, PointerType, int1
from ninetoothed.language.primitives import Primitive

Number = int | float | bool

# Those that every type has exactly, so that no rounding is to be thought of.
_EXACT = (0, 1, -1, math.inf, -math.inf)

_UNARY: dict[str, Callable[[Number], Number]] = {
    "exp": math.exp, "exp2": lambda x: math.pow(2, x), "log": lambda x: math.log(x) if x else -math.inf,
    "log2": lambda x: math.log2(x) if x else -math.inf, "sqrt": math.sqrt, "tanh": math.tanh, "erf": math.erf,
    "sigmoid": lambda x: 0.0 if x == -math.inf else 1 / (1 + math.exp(-x)), "neg": operator.neg, "abs": abs,
    "invert": operator.not_,
}  # fmt: skip
_BINARY: dict[str, Callable[[Number, Number], Number]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "maximum": max, "minimum": min,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def computed(operation: ir.Apply, held: list[Number | None]) -> Number | None:
    """Compute the number that an element-wise operation makes of those that its operands hold."""
    dtype, function = operation.results[0].type.dtype, operation.function
    if function in ("and", "or") and dtype == int1:
        decisive = function == "or"
        return decisive if decisive in held else None if None in held else not decisive
    if function == "where":
        condition, then, otherwise = held
        if condition is None:
            return then if then is not None and then == otherwise else None
        return then if condition else otherwise
    numbers = [number for number in held if number is not None]
    if len(numbers) < len(held):
        return None
    if operation.primitive.moves_lanes or function in ("cast", "assign"):
        return _exact(numbers[0], dtype)
    try:
        if function in _UNARY:
            return _exact(_UNARY[function](numbers[0]), dtype)
        if function in _BINARY:
            return _exact(_BINARY[function](*numbers), dtype)
    except (ArithmeticError, ValueError):
        pass
    return None


def _exact(number: Number, dtype: DType | PointerType) -> Number | None:
    if dtype == int1:
        return bool(number)
    if dtype.is_floating:
        return float(number) if number in _EXACT else None
    if isinstance(dtype, PointerType) or not dtype.is_integer or not math.isfinite(number):
        return None
    low, high = dtype.range
    return int(number) if low <= number <= high else None


def identity(primitive: Primitive, dtype: DType | PointerType) -> Number | None:
    """Find the number that a primitive may take in without a difference; None where it has none of a type."""
    assert isinstance(dtype, DType), "an operation on pointers has no identity"
    low, high = (-math.inf, math.inf) if dtype.is_floating else dtype.range
    match primitive.identity:
        case "least":
            return low
        case "greatest":
            return high
        case bool() as truth:
            return truth if dtype == int1 else None
        case number:
            return number


def neutral(operation: ir.Apply, position: int) -> Number | None:
    """Find the number that, as an operand at a position, leaves the other operand of an operation as it is, NaN too."""
    primitive, dtype = operation.primitive, operation.result.type.dtype
    if operation.function in ("maximum", "minimum") and dtype.is_floating and not operation.attribute("propagate_nan"):
        return None  # Of NaN and a number they give the number.
    if len(operation.operands) != 2 or (position == 0 and not primitive.is_commutative):
        return None
    if isinstance(dtype, PointerType):
        return 0 if primitive.identity == 0 else None
    return identity(primitive, dtype)

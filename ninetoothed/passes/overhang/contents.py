"""Compute the number that a result holds in its overhang, from those of its operands; None where unknown."""

from __future__ import annotations

import math
from contextlib import suppress

from ninetoothed import ir
from ninetoothed.dtypes import DType, PointerType, int1
from ninetoothed.language.primitive import Number, Primitive

# Numbers that every type holds exactly, so that nothing is rounded.
_EXACT = (0, 1, -1, math.inf, -math.inf)


def computed(operation: ir.Apply, held: list[Number | None]) -> Number | None:
    """Compute the result of an operation for the numbers that its operands hold."""
    dtype, function = operation.results[0].type.dtype, operation.function
    if function in ("and", "or") and dtype == int1:
        decisive = function == "or"
        return decisive if decisive in held else None if None in held else not decisive
    if function == "where":
        condition, then, otherwise = held
        if condition is None:
            return then if then is not None and then == otherwise else None
        return then if condition else otherwise
    if function == "assign":
        return held[1]
    known = [number for number in held if number is not None]
    if len(known) < len(held):
        return None
    if keeps(operation, known[0]):
        return known[0]
    if function == "cast":
        return _exact(known[0], dtype)
    numbers = [bool(n) if v.type.dtype == int1 else n for n, v in zip(known, operation.operands, strict=True)]
    if operation.primitive.fold is not None:
        with suppress(ArithmeticError, ValueError):
            return _exact(operation.primitive.fold(*numbers), dtype)
    return None


def keeps(operation: ir.Apply, number: Number | None) -> bool:
    """Tell whether a view or a reduction holds a number past an edge where its operand does."""
    function = operation.function
    return operation.primitive.moves_lanes or function in ("split", "max", "min") or (function == "sum" and number == 0)


def _exact(number: Number, dtype: DType | PointerType) -> Number | None:
    if dtype == int1:
        return bool(number)
    if isinstance(dtype, PointerType):
        return None
    low, high = dtype.range
    if not low <= number <= high or (dtype.is_floating and number not in _EXACT):
        return None
    return float(number) if dtype.is_floating else int(number)


def identity(primitive: Primitive, dtype: DType | PointerType) -> Number | None:
    """Return the identity of a primitive for a type; None where it has none."""
    assert isinstance(dtype, DType), "an operation on pointers has no identity"
    low, high = dtype.range
    match primitive.identity:
        case "least":
            return low
        case "greatest":
            return high
        case bool() as truth:
            return truth if dtype == int1 else None
        case number:
            return number


def constants(body: ir.Block) -> dict[ir.Value, Number]:
    """Find the numbers that values hold in all lanes."""
    found: dict[ir.Value, Number] = {}
    for operation in ir.walk(body):
        match operation:
            case ir.Constant(result=result, value=number):
                found[result] = number
            case ir.Apply(operands=(_, *_) as operands, results=(result,)):
                if (known := computed(operation, [*map(found.get, operands)])) is not None:
                    found[result] = known
    return found


def neutral(operation: ir.Apply, position: int) -> Number | None:
    """Return the operand that, at a position, leaves the other operand of an operation unchanged, NaN too."""
    primitive, dtype = operation.primitive, operation.result.type.dtype
    if operation.function in ("maximum", "minimum") and dtype.is_floating and not operation.attribute("propagate_nan"):
        return None  # Of NaN and a number they give the number.
    if len(operation.operands) != 2 or (position == 0 and not primitive.is_commutative):
        return None
    if isinstance(dtype, PointerType):
        return 0 if primitive.identity == 0 else None
    return identity(primitive, dtype)

"""Python numbers and the types that hold them."""

from __future__ import annotations

import math
from typing import cast

from ninetoothed import dtypes
from ninetoothed.dtypes import DType, PointerType

# How many binary digits halves hold.
_DIGITS = {dtypes.float16: 11, dtypes.bfloat16: 8}


def numeric(dtype: DType | PointerType | None) -> DType:
    """Narrow a type to one of numbers, for type checkers: pointers do not get here."""
    return cast(DType, dtype)


def number_type(number: float) -> DType:
    """Return the type that a Python number takes on its own."""
    if isinstance(number, bool):
        return dtypes.int1
    if isinstance(number, int):
        return dtypes.int32 if -(2**31) <= number < 2**31 else dtypes.int64
    return dtypes.float32


def holds(dtype: DType, number: float) -> bool:
    """Tell whether a number is within the range of a type."""
    return not dtype.is_integer or (math.isfinite(number) and dtype.range[0] <= number <= dtype.range[1])


def is_lost(number: object, dtype: DType) -> bool:
    """Tell whether a half does not hold an integer, or makes another number infinite, 0 or of fewer digits."""
    if not dtype.is_half or not isinstance(number, int | float):
        return False
    if isinstance(number, int):
        odd = number // (number & -number or 1)
        return odd.bit_length() > _DIGITS[dtype] or (dtype == dtypes.float16 and abs(number) > 65504)
    return dtype == dtypes.float16 and math.isfinite(number) and number != 0 and not 2**-14 <= abs(number) <= 65504


def wrapped(number: float, dtype: DType) -> bool | int | float:
    """Convert a number as the hardware does: integers wrap."""
    if not dtype.is_integer:
        return number
    low, high = dtype.range
    return (int(number) - low) % (high - low + 1) + low


def covers(target: DType, source: DType) -> bool:
    """Tell whether a type holds the greatest number of another, so that nothing positive wraps to a negative number."""
    return target.is_floating or (not source.is_floating and target.range[1] >= source.range[1])

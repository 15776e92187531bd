"""Python numbers and the types that hold them."""

from __future__ import annotations

import math
from typing import cast

from ninetoothed import dtypes
from ninetoothed.dtypes import DType, PointerType

# How many binary digits halves hold.
_DIGITS = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float8e4nv: 4, dtypes.float8e5: 3}


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
    """Tell whether a half does not hold a number as it is."""
    if dtype not in _DIGITS or not isinstance(number, int | float) or not math.isfinite(number) or not number:
        return False
    whole = abs(number.as_integer_ratio()[0])
    too_long = (whole // (whole & -whole)).bit_length() > _DIGITS[dtype]
    return too_long or (dtype == dtypes.float16 and not 2**-14 <= abs(number) <= 65504)


def wrapped(number: float, dtype: DType) -> bool | int | float:
    """Convert a number as the hardware does: integers wrap."""
    if not dtype.is_integer:
        return number
    low, high = dtype.range
    return (int(number) - low) % (high - low + 1) + low


def covers(target: DType, source: DType) -> bool:
    """Tell whether a type holds the greatest number of another, so that nothing positive wraps to a negative number."""
    return target.is_floating or (not source.is_floating and target.range[1] >= source.range[1])

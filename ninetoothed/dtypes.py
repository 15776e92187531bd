"""Element types: compile-time values that print, hash and compare, with no framework behind them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class DType:
    """An element type. `category` is one of "bool", "int", "uint", "float"; `bits` is the width of one element.

    >>> float16.bits, float16.is_floating, float16
    (16, True, float16)
    """

    name: str
    category: str
    bits: int

    @property
    def is_floating(self) -> bool:
        return self.category == "float"

    @property
    def is_integer(self) -> bool:
        return self.category in ("int", "uint")

    @property
    def is_half(self) -> bool:
        """Tell whether division, functions and sums are computed in float32."""
        return self.is_floating and self.bits <= 16

    @property
    def is_float8(self) -> bool:
        """Tell whether numbers are only kept in the type, and computed in another."""
        return self.is_floating and self.bits == 8

    @property
    def range(self) -> tuple[int, int] | tuple[float, float]:
        """The least and the greatest number that conversions give: infinities, but for float8, which saturates."""
        if self.is_floating:
            greatest = {"float8e4nv": 448.0, "float8e5": 57344.0}.get(self.name, math.inf)
            return -greatest, greatest
        if self.category == "int":
            return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1
        return 0, 2**self.bits - 1

    def truncated(self, value: float) -> int:
        """Convert a float to this type of integers, before those narrower than int32 wrap: the nearest, 0 for NaN.

        >>> uint8.truncated(-1.5), uint32.truncated(-1.5), int8.truncated(1e20), int8.truncated(math.inf)
        (-1, 0, 2147483647, 127)
        """
        if value != value:
            return 0
        low, high = self.range if self.bits >= 32 or math.isinf(value) else int32.range
        return int(min(max(value, low), high))

    # -- the names of Triton, whose functions may be called --

    @property
    def primitive_bitwidth(self) -> int:
        return self.bits

    def is_fp16(self) -> bool:
        return self == float16

    def is_bf16(self) -> bool:
        return self == bfloat16

    def is_fp32(self) -> bool:
        return self == float32

    def is_fp64(self) -> bool:
        return self == float64

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class PointerType:
    """The type of an address of elements of type `element`, inside the memory of parameter `parameter`."""

    element: DType
    parameter: str

    category = "pointer"
    bits = 64
    is_floating = False
    is_integer = False
    is_half = False

    @property
    def element_ty(self) -> DType:
        """Triton's name for `element`."""
        return self.element

    def __repr__(self) -> str:
        return f"pointer<{self.element}>"


int1 = DType("int1", "bool", 1)
int8 = DType("int8", "int", 8)
int16 = DType("int16", "int", 16)
int32 = DType("int32", "int", 32)
int64 = DType("int64", "int", 64)
uint8 = DType("uint8", "uint", 8)
uint16 = DType("uint16", "uint", 16)
uint32 = DType("uint32", "uint", 32)
uint64 = DType("uint64", "uint", 64)
float8e4nv = DType("float8e4nv", "float", 8)
float8e5 = DType("float8e5", "float", 8)
float16 = DType("float16", "float", 16)
bfloat16 = DType("bfloat16", "float", 16)
float32 = DType("float32", "float", 32)
float64 = DType("float64", "float", 64)

ALL = tuple(each for each in list(globals().values()) if isinstance(each, DType))
BY_NAME = {dtype.name: dtype for dtype in ALL}


def described(types: Collection[DType]) -> str:
    """Name types by their kinds.

    >>> described([int32, int64, uint32, uint64, float32, float64])
    'integers of 32 and 64 bits, float32 and float64'
    """
    kinds = [("all types", ALL)] if set(ALL) <= set(types) else _KINDS
    parts, left = [], dict.fromkeys(types)
    for words, kind in kinds:
        if set(kind) <= left.keys():
            parts.append(words)
            left = {each: None for each in left if each not in kind}
    parts += map(str, left)
    return " and ".join([", ".join(parts[:-1]), *parts[-1:]]) if len(parts) > 1 else parts[0]


_INTEGERS = tuple(each for each in ALL if each.is_integer)
_KINDS = (
    ("integers", _INTEGERS),
    ("integers of 32 and 64 bits", tuple(each for each in _INTEGERS if each.bits >= 32)),
    ("bools", (int1,)),
    ("floats", (float16, bfloat16, float32, float64)),
    ("float8", (float8e4nv, float8e5)),
)


def nearest(dtype: DType, types: Iterable[DType]) -> DType:
    """Choose the type to which one is best converted: of its kind and no narrower, where there is such a type.

    >>> nearest(float16, [int32, float32, float64]), nearest(float64, [int1, int8, int64])
    (float32, int64)
    """
    return min(
        types,
        key=lambda each: (
            each.is_floating != dtype.is_floating, each.category != dtype.category, each.bits < dtype.bits,
            abs(each.bits - dtype.bits),
        ),
    )  # fmt: skip


_TORCH_NAMES = {"bool": int1, "float8_e4m3fn": float8e4nv, "float8_e5m2": float8e5}


def from_torch(torch_dtype: object) -> DType | None:
    """Convert a `torch.dtype`; None where the language has no such type (complex, quantised).

    >>> import torch
    >>> from_torch(torch.bool)
    int1
    """
    name = str(torch_dtype).removeprefix("torch.")
    return _TORCH_NAMES.get(name) or BY_NAME.get(name)


def to_torch_name(dtype: DType) -> str:
    """Name the attribute of `torch` that is the same element type.

    >>> to_torch_name(int1)
    'bool'
    """
    for name, candidate in _TORCH_NAMES.items():
        if candidate == dtype:
            return name
    return dtype.name


# The higher category wins in a promotion.
CATEGORY_ORDER = {"bool": 0, "int": 1, "uint": 1, "float": 2}


def promote(lhs: DType, rhs: DType) -> DType:
    """Promote two types: to the higher category, then to the wider; float16 and bfloat16 give float32.

    >>> promote(float16, int64), promote(float16, bfloat16), promote(int8, uint8)
    (float16, float32, int16)
    """
    if lhs == rhs:
        return lhs
    if CATEGORY_ORDER[lhs.category] != CATEGORY_ORDER[rhs.category]:
        return max(lhs, rhs, key=lambda dtype: CATEGORY_ORDER[dtype.category])
    if lhs.category == "float":
        return max(lhs, rhs, key=lambda dtype: dtype.bits) if lhs.bits != rhs.bits else float32
    if lhs.category == rhs.category:
        return max(lhs, rhs, key=lambda dtype: dtype.bits)
    signed, unsigned = (lhs, rhs) if lhs.category == "int" else (rhs, lhs)
    bits = signed.bits if signed.bits > unsigned.bits else min(2 * unsigned.bits, 64)
    return BY_NAME[f"int{bits}"]

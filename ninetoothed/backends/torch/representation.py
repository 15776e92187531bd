"""Represent values of the language by PyTorch tensors.

A value is a tensor of shape (grid dimensions..., tile axes...), in which an extent is 1 where the value does not vary;
or a Python number, if it is the same everywhere. Unsigned integers that PyTorch computes badly are held in
int64: uint16 and uint32 as themselves, uint64 as its bit pattern. A pointer is an offset in elements from the first one
of its parameter.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import overload

import numpy
import torch

from ninetoothed import dtypes
from ninetoothed.dtypes import DType, PointerType

Number = int | float | bool
Held = torch.Tensor | Number

ElementType = DType | PointerType

_WIDE: dict[ElementType, int] = {dtypes.uint16: 0xFFFF, dtypes.uint32: 0xFFFFFFFF}
_SIGNED: dict[DType | PointerType, torch.dtype] = {
    dtypes.uint16: torch.int16,
    dtypes.uint32: torch.int32,
    dtypes.uint64: torch.int64,
}
_MEMORY: dict[ElementType, torch.dtype] = {dtype: getattr(torch, dtypes.to_torch_name(dtype)) for dtype in dtypes.ALL}
SIGN = -(2**63)


def held_dtype(dtype: ElementType) -> torch.dtype:
    """Return the element type of the tensors that hold values of `dtype`."""
    if isinstance(dtype, PointerType) or dtype in _SIGNED:
        return torch.int64
    return _MEMORY[dtype]


def memory_dtype(dtype: ElementType) -> torch.dtype:
    """Return the type of the same width through which PyTorch accesses memory of `dtype`."""
    return _SIGNED.get(dtype) or _MEMORY[dtype]


def wrap(value: torch.Tensor, dtype: ElementType) -> torch.Tensor:
    """Bring the result of integer arithmetic back into the range of an unsigned type."""
    mask = _WIDE.get(dtype)
    return value if mask is None else value & mask


def from_memory(value: torch.Tensor, dtype: ElementType) -> torch.Tensor:
    """Convert from the type of memory to the type in which values are held."""
    return wrap(value.to(torch.int64), dtype) if dtype in _SIGNED else value


def to_memory(value: torch.Tensor, dtype: ElementType) -> torch.Tensor:
    """Convert from the type in which values are held to that of memory."""
    return value.to(_SIGNED[dtype]) if dtype in _SIGNED else value


def number(value: Number, dtype: ElementType) -> Number:
    """Round or wrap a Python number as `dtype` holds it."""
    if isinstance(dtype, PointerType):
        return int(value)
    if dtype.category == "bool":
        return bool(value)
    if dtype.is_floating:
        if dtype.bits == 64:
            return float(value)
        if dtype.bits == 32:
            return ctypes.c_float(value).value
        return to_float(torch.tensor(float(value), dtype=torch.float64, device="cpu"), dtype).item()
    signed = dtype.category == "int" or dtype == dtypes.uint64
    value = dtype.truncated(value) if isinstance(value, float) else value
    wrapped = int(value) & (2**dtype.bits - 1)
    return wrapped - 2**dtype.bits if signed and wrapped >> (dtype.bits - 1) else wrapped


def number_in_memory(value: Number, dtype: ElementType) -> Number:
    """Convert a Python number to the type of memory, which is signed for most unsigned types."""
    held, greatest = number(value, dtype), _WIDE.get(dtype)
    return held if greatest is None or held <= greatest // 2 else held - greatest - 1


@overload
def cast(value: torch.Tensor, source: ElementType, target: ElementType) -> torch.Tensor: ...
@overload
def cast(value: Held, source: ElementType, target: ElementType) -> Held: ...
def cast(value: Held, source: ElementType, target: ElementType) -> Held:
    """Convert as the language does: floats to integers truncate, integers wrap, anything to int1 is `!= 0`."""
    if source == target:
        return value
    if not isinstance(value, torch.Tensor):
        if source == dtypes.uint64 and value < 0:
            value += 2**64
        return bool(value != 0) if target == dtypes.int1 else number(value, target)
    if target == dtypes.int1:
        return value != 0
    value = _uint64_to_float(value) if source == dtypes.uint64 and target.is_floating else value
    if target.is_floating:
        return to_float(value, target)
    if source.is_floating and target.is_integer:
        return _truncated(value, target)
    return wrap(value.to(held_dtype(target)), target)


def to_float(value: torch.Tensor, dtype: ElementType) -> torch.Tensor:
    """Convert to a type of floats. Eight bits saturate, as GPUs convert them; PyTorch gives infinities or NaN."""
    if isinstance(dtype, DType) and dtype.is_float8:
        value = value.float() if value.element_size() == 1 else value
        value = value.clamp(*dtype.range)
    return value.to(held_dtype(dtype))


def bitcast(value: torch.Tensor, source: ElementType, target: ElementType) -> torch.Tensor:
    """Read the bits of a value as another type; a pointer stays what it is."""
    if isinstance(source, PointerType) or isinstance(target, PointerType):
        return value
    bits = to_memory(value, source)
    if source == dtypes.int1:
        bits = bits.to(torch.int8)
    if target == dtypes.int1:
        return bits != 0
    return from_memory(bits.contiguous().view(memory_dtype(target)), target)


def unsigned64(function: Callable[..., numpy.ndarray]) -> Callable[..., torch.Tensor]:
    """Make a function of NumPy's uint64 arrays one of tensors that hold uint64."""

    def apply(*operands: torch.Tensor) -> torch.Tensor:
        arrays = [operand.cpu().numpy().view(numpy.uint64) for operand in operands]
        result = numpy.ascontiguousarray(function(*arrays))
        signed = result.view(numpy.int64) if result.dtype == numpy.uint64 else result
        return torch.from_numpy(signed).to(operands[0].device)

    return apply


def _truncated(value: torch.Tensor, target: ElementType) -> torch.Tensor:
    """Convert floats to integers as GPUs do: what is beyond is the nearest there is; narrow ones wrap from int32.

    From 2^63 on, the difference is converted to uint64, and the highest bit set. NaN is 0, which GPUs leave open.
    """
    middle = 2.0**63
    value = value.float() if value.element_size() <= 2 else value
    value = torch.where(value.isnan(), 0.0, value)
    if target == dtypes.uint64:
        is_large = value >= middle
        rest = torch.where(value >= 2 * middle, middle, torch.where(is_large, value - middle, value.clamp(min=0)))
        rest = _saturated(rest)
        return torch.where(is_large, rest ^ SIGN, rest)
    assert isinstance(target, DType)
    wide = target if target.bits >= 32 else dtypes.int32
    low, high = wide.range
    return wrap(_saturated(value).clamp(int(low), int(high)).to(held_dtype(target)), target)


def _saturated(value: torch.Tensor) -> torch.Tensor:
    """Convert floats to int64; PyTorch gives the least for the greatest, too."""
    return torch.where(value >= 2.0**63, torch.iinfo(torch.int64).max, value.to(torch.int64))


def _uint64_to_float(value: torch.Tensor) -> torch.Tensor:
    return unsigned64(lambda array: array.astype(numpy.float64))(value)

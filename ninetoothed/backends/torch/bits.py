"""Functions of bits, by the names of libdevice. Each takes the types of its first operand and of its result, too."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import torch

from ninetoothed import dtypes
from ninetoothed.backends.torch.representation import bitcast, unsigned64
from ninetoothed.dtypes import DType

Tensor = torch.Tensor
MASK = 0xFFFFFFFF


def _planes(x: Tensor, width: int) -> list[Tensor]:
    """Return the bits of integers from the lowest on, as int64 0 or 1."""
    return [(x.long() >> place) & 1 for place in range(width)]


def _clz(source: DType, target: DType, x: Tensor) -> Tensor:
    count = torch.full_like(x, source.bits, dtype=torch.int64)
    for place, is_set in enumerate(_planes(x, source.bits)):
        count = torch.where(is_set == 1, source.bits - 1 - place, count)
    return count


def _ffs(source: DType, target: DType, x: Tensor) -> Tensor:
    found = torch.zeros_like(x, dtype=torch.int64)
    for place, is_set in reversed(list(enumerate(_planes(x, source.bits)))):
        found = torch.where(is_set == 1, place + 1, found)
    return found


def _popc(source: DType, target: DType, x: Tensor) -> Tensor:
    return torch.stack(_planes(x, source.bits)).sum(0)


def _brev(source: DType, target: DType, x: Tensor) -> Tensor:
    reverse = torch.zeros_like(x, dtype=torch.int64)
    for is_set in _planes(x, source.bits):
        reverse = (reverse << 1) | is_set
    return reverse


def _byte_perm(source: DType, target: DType, x: Tensor, y: Tensor, selector: Tensor) -> Tensor:
    """Choose bytes of y and x, of which the lowest of x is byte 0; only three bits of a digit count."""
    x, y, selector = (each.long() for each in (x, y, selector))
    both, result = (y & MASK) << 32 | (x & MASK), torch.zeros_like(x + y + selector)
    for place in range(4):
        chosen = (both >> (8 * ((selector >> 4 * place) & 7))) & 0xFF
        result = result | chosen << 8 * place
    return result


def _mul24(source: DType, target: DType, x: Tensor, y: Tensor) -> Tensor:
    """Multiply the lower 24 bits; those of signed integers have their sign in the highest."""
    x, y = ((each.long() & 0xFFFFFF) for each in (x, y))
    if source.category == "int":
        x, y = ((each ^ 0x800000) - 0x800000 for each in (x, y))
    return x * y


def _umulhi64(x: numpy.ndarray, y: numpy.ndarray) -> numpy.ndarray:
    low, half = numpy.uint64(0xFFFFFFFF), numpy.uint64(32)
    x_low, x_high, y_low, y_high = x & low, x >> half, y & low, y >> half
    middle = x_high * y_low + (x_low * y_low >> half)
    carried = x_low * y_high + (middle & low)
    return x_high * y_high + (middle >> half) + (carried >> half)


def upper_half64(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the upper halves of products of uint64, whose bits int64 holds."""
    return unsigned64(_umulhi64)(*torch.broadcast_tensors(x.contiguous(), y.contiguous()))


def _mulhi(source: DType, target: DType, x: Tensor, y: Tensor) -> Tensor:
    if source.bits == 32:
        return x.long() * y.long() >> 32
    upper = upper_half64(x, y)
    if source.category == "uint":
        return upper
    return upper - torch.where(x < 0, y, 0) - torch.where(y < 0, x, 0)


def _sad(source: DType, target: DType, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return (x.long() - y.long()).abs() + z.long()


def _hadd(source: DType, target: DType, x: Tensor, y: Tensor) -> Tensor:
    return (x.long() + y.long()) >> 1


def _rhadd(source: DType, target: DType, x: Tensor, y: Tensor) -> Tensor:
    return (x.long() + y.long() + 1) >> 1


def _as_other(source: DType, target: DType, x: Tensor) -> Tensor:
    return bitcast(x, source, target)


def _upper(source: DType, target: DType, x: Tensor) -> Tensor:
    return bitcast(x, source, dtypes.int64) >> 32


def _lower(source: DType, target: DType, x: Tensor) -> Tensor:
    return bitcast(x, source, dtypes.int64)


def _of_halves(source: DType, target: DType, high: Tensor, low: Tensor) -> Tensor:
    return bitcast(high.long() << 32 | (low.long() & MASK), dtypes.int64, target)


_BITCASTS = "int_as_float uint_as_float float_as_int float_as_uint longlong_as_double double_as_longlong"
FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    **dict.fromkeys(_BITCASTS.split(), _as_other),
    "brev": _brev,
    "byte_perm": _byte_perm,
    "clz": _clz,
    "double2hiint": _upper,
    "double2loint": _lower,
    "ffs": _ffs,
    "hadd": _hadd,
    "hiloint2double": _of_halves,
    "int2double_rn": lambda source, target, x: x.double(),
    "mul24": _mul24,
    "mulhi": _mulhi,
    "popc": _popc,
    "rhadd": _rhadd,
    "sad": _sad,
    "uint2double_rn": lambda source, target, x: x.double(),
}

"""Tell where tensors of a call lie: which are the same memory, which interleave, and which share a byte."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

# How many steps are spent to prove that interleaved elements are apart; views take a few.
WORK = 100_000


def same_memory(values: Iterable[Any]) -> tuple[tuple[int, ...], ...]:
    """List the places of tensors that begin at one address, as those do that are the same memory.

    (x, y, x[:]) -> ((0, 2),)
    """
    places: dict[int, tuple[int, ...]] = {}
    for i, value in enumerate(values):
        if isinstance(value, torch.Tensor) and value.numel() and (address := value.data_ptr()):  # 0 is no memory
            places[address] = (*places.get(address, ()), i)
    return tuple(each for each in places.values() if len(each) > 1)


def reach(output: Any, other: Any) -> tuple[int, int] | None:
    """Return the distances between which addresses of two tensors interleave; None where they cannot."""
    spans = [_span(value) for value in (output, other)]
    return (-spans[0], spans[1]) if all(spans) else None


def _span(value: Any) -> int:
    """Return how many bytes lie between a tensor's first and last; 0 for what has no memory of its own."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.is_nested or not value.numel():
        return 0
    last = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    return (last + 1) * value.itemsize


def are_shared(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Tell whether a byte is in both; False where that takes too long to find out."""
    import numpy

    shares_memory: Any = numpy.shares_memory  # whose stub knows two numbers for `max_work`
    try:
        return bool(shares_memory(numpy.asarray(_Memory(a)), numpy.asarray(_Memory(b)), max_work=WORK))
    except numpy.exceptions.TooHardError:
        return False


class _Memory:
    """Shows NumPy where a tensor lies, on any device: it reads no element."""

    def __init__(self, tensor: torch.Tensor):
        width = tensor.itemsize
        self.__array_interface__ = {
            "version": 3,
            "data": (tensor.data_ptr(), False),
            "typestr": f"|V{width}",
            "shape": tuple(tensor.shape),
            "strides": tuple(stride * width for stride in tensor.stride()),
        }

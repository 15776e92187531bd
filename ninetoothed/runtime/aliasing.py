"""Refuse outputs that share a part of their memory with another argument.

    kernel(x[:-1], x[1:])           refused: programs would read what others may have written
    kernel(x, x), kernel(x, x[:])   in place: the elements of both are the same, in the same order
    kernel(x[:, :8], x[:, 8:])      no element is in both, though their addresses interleave

A fast path compares addresses alone: of its shapes and strides, the distances at which memory may be shared are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ninetoothed.definition import KernelDefinition
from ninetoothed.runtime.arguments import problem

# The positions of two arguments, of which the first is written to.
Pair = tuple[int, int]
# How many steps are spent to prove that interleaved elements are apart; views take a few.
WORK = 100_000


def pairs(definition: KernelDefinition, stored: frozenset[str], touched: frozenset[str]) -> tuple[Pair, ...]:
    """List the pairs of tensors that a variant touches, and of which it writes to the first; each pair once."""
    names = [parameter.name if parameter.source.ndim else "" for parameter in definition.parameters]
    written = [position for position, name in enumerate(names) if name in stored]
    return tuple(
        (i, j) for i in written for j, name in enumerate(names) if name in touched and (j not in written or j > i)
    )


def check_memory(definition: KernelDefinition, args: Sequence[Any], separate: tuple[Pair, ...]) -> None:
    """Raise `ArgumentError` for an output that shares a part of its memory with another argument."""
    for (i, j), distance in near(args, separate):
        if not (distance == 0 and _layout(args[i]) == _layout(args[j])) and _share(args[i], args[j]):
            output, other = definition.parameters[i], definition.parameters[j].name
            what = f"is written to, and shares memory with other elements of `{other}`, and programs run in any order"
            remedy = "pass a tensor with memory of its own, say `.clone()`, or the same elements in the same order"
            raise problem(definition, output, what, remedy)


def near(args: Sequence[Any], separate: tuple[Pair, ...]) -> Iterator[tuple[Pair, int]]:
    """Yield the pairs whose addresses interleave, with the distance in bytes from the second to the first."""
    for i, j in separate:
        if args[i] is not args[j] and (reached := reach(args[i], args[j])):
            distance = args[i].data_ptr() - args[j].data_ptr()
            if reached[0] < distance < reached[1]:
                yield (i, j), distance


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


def _layout(tensor: torch.Tensor) -> tuple:
    """Describe how elements follow each other: rows without gaps are as one dimension."""
    dims: list[tuple[int, int]] = []
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        if dims and dims[-1][1] == size * stride:
            dims[-1] = (dims[-1][0] * size, stride)
        elif size != 1:
            dims.append((size, stride))
    return tensor.itemsize, *dims


def _share(a: torch.Tensor, b: torch.Tensor) -> bool:
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

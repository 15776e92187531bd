"""Shapes and strides: the layout that an elementwise result gets, and the fewest dimensions that describe a layout."""

import math
from collections.abc import Sequence

import torch

# Types of tensors whose sizes are ints: those of fakes may be symbols.
_REAL = frozenset({torch.Tensor, torch.nn.Parameter})


def empty_elementwise(
    operands: Sequence[torch.Tensor], shape, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """An empty tensor of `shape`, to which `operands` broadcast, with the strides that PyTorch gives such a result."""
    first = operands[0]
    if all_contiguous(operands, shape):
        return torch.empty_like(first, dtype=dtype, device=device, memory_format=torch.contiguous_format)
    if all(same_shape(operand.shape, shape) for operand in operands):
        if all(is_contiguous(operand, torch.channels_last) for operand in operands):
            return torch.empty_like(first, dtype=dtype, device=device, memory_format=torch.channels_last)
        if all(_same(operand.stride(), first.stride()) for operand in operands[1:]):
            return torch.empty_like(first, dtype=dtype, device=device)

    return empty_in_order(shape, _order([_strides(operand, shape) for operand in operands], shape), dtype, device)


def empty_in_order(shape, order: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Allocate a dense tensor whose dimensions lie in memory in this order, outermost first.

    It is no view: autograd lets no view that an operator returns be written in place.
    """
    strides, step = [1] * len(order), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= torch.sym_max(shape[dim], 1)

    return torch.empty_strided(tuple(shape), strides, dtype=dtype, device=device)


def all_contiguous(tensors: Sequence[torch.Tensor], shape) -> bool:
    """Tell whether tensors have this shape and are contiguous: the common case, to be told quickly."""
    for tensor in tensors:
        if not same_shape(tensor.shape, shape):
            return False
        if not (tensor.is_contiguous() if type(tensor) in _REAL else is_contiguous(tensor)):
            return False
    return True


def is_contiguous(tensor: torch.Tensor, memory_format: torch.memory_format = torch.contiguous_format) -> bool:
    """Do as the method; return False where sizes that depend on data leave it open, where the method raises."""
    if type(tensor) in _REAL or all(isinstance(size, int) for size in tensor.shape):
        return tensor.is_contiguous(memory_format=memory_format)
    if memory_format is torch.channels_last:
        return tensor.ndim == 4 and is_contiguous(tensor.permute(0, 2, 3, 1))

    expected = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride())):
        if not (surely(size == 1) or surely(stride == expected)):
            return False
        expected = expected * size
    return True


def is_channels_last(tensor: torch.Tensor) -> bool:
    """Tell whether strides are those of images with their channels last, dense or not, as PyTorch reads them."""
    if tensor.ndim != 4 or not surely(tensor.stride(1) != 0):
        return False
    least = 0
    for dim in (1, 3, 2, 0):
        size, stride = tensor.shape[dim], tensor.stride(dim)
        if not (surely(size != 0) and surely(stride >= least)) or (dim == 0 and surely(least == tensor.stride(1))):
            return False
        least = stride if surely(size == 1) else stride * size
    return True


def surely(condition: bool | torch.SymBool) -> bool:
    """Tell whether a condition on sizes and strides holds; false where sizes that depend on data leave it open."""
    if isinstance(condition, bool | torch.Tensor):  # `torch.jit.trace` has sizes that are tensors.
        return bool(condition)
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    return guard_or_false(condition)


def same_shape(shape, other) -> bool:
    """Tell whether shapes are equal; false where sizes that depend on data leave it open."""
    return len(shape) == len(other) and _same(shape, other)


def _same(sizes, others) -> bool:
    return all(surely(size == other) for size, other in zip(sizes, others))


def _at_least(stride, other) -> bool:
    if isinstance(stride, int) and isinstance(other, int):
        return stride >= other

    return surely(stride >= other) or surely(stride % other == 0)


def _strides(operand: torch.Tensor, shape) -> list[int]:
    """Compute the strides of an operand broadcast to `shape`: 0 where it repeats itself or lacks a dimension."""
    own = zip(operand.shape, operand.stride(), shape[len(shape) - operand.ndim :])

    repeated = [0 if surely(size != target) else stride for size, stride, target in own]
    return [0] * (len(shape) - operand.ndim) + repeated


def _order(strides: Sequence[Sequence[int]], shape) -> list[int]:
    """Dimensions from the largest stride to the smallest; where operands differ the first decides, as in PyTorch.

    The comparison is no total order (broadcast dimensions tell nothing), so the algorithm is part of the result.
    """
    order = list(reversed(range(len(shape))))
    for end in range(1, len(order)):
        at = end
        for place in reversed(range(end)):
            inner = _is_inner(order[place], order[at], strides, shape)
            if inner:
                break
            if inner is False:
                order[place], order[at], at = order[at], order[place], place

    return order[::-1]


def _is_inner(dim: int, other: int, strides, shape) -> bool | None:
    """Tell whether `dim` moves faster than `other`; None where that is open, as for strides of 0 (broadcast)."""
    for stride in strides:
        if surely(stride[dim] == 0) or surely(stride[other] == 0):
            continue
        if surely(stride[dim] == stride[other]):
            if surely(shape[dim] > shape[other]):
                return False
        elif _at_least(stride[other], stride[dim]):
            return True
        elif _at_least(stride[dim], stride[other]):
            return False

    return None


def coalesce(tensors: Sequence[torch.Tensor], kept: int = 0) -> Sequence[torch.Tensor]:
    """Views of tensors of one shape with the fewest dimensions, whose elements still correspond.

    The last `kept` dimensions stay as they are. Of the others, those of size 1 go, those that lie one in another in
    every tensor become one, and the order is that of the last tensor in memory. At least one of them is left.
    """
    shape = tensors[0].shape
    leading = len(shape) - kept
    if all_contiguous(tensors, shape):
        if leading == 1:
            return tensors
        merged = (math.prod(shape[:leading]), *shape[leading:])
        return [tensor.view(merged) for tensor in tensors]

    sizes, strides = _groups(tensors, leading)
    return [
        tensor.as_strided((*sizes, *shape[leading:]), (*stride, *tensor.stride()[leading:]))
        for tensor, stride in zip(tensors, strides)
    ]


def _groups(tensors: Sequence[torch.Tensor], leading: int) -> tuple[list[int], list[list[int]]]:
    """The sizes of groups of dimensions that lie one in another in every tensor, and for each tensor their strides."""
    groups: list[tuple[int, tuple[int, ...]]] = []
    for dim in sorted(range(leading), key=tensors[-1].stride, reverse=True):
        size, strides = tensors[0].shape[dim], tuple(tensor.stride(dim) for tensor in tensors)
        if size == 1:
            continue
        if groups and groups[-1][1] == tuple(stride * size for stride in strides):
            size *= groups.pop()[0]
        groups.append((size, strides))
    groups = groups or [(1, (1,) * len(tensors))]

    return [size for size, _ in groups], [[strides[i] for _, strides in groups] for i in range(len(tensors))]

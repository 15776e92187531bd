"""Rows of norms and of their gradients: which arguments fit, how they are viewed, and sums over rows."""

from collections.abc import Callable, Sequence

import torch

from ..kernels import column_sums
from .checks import FLOATS
from .layout import coalesce

# Gradients of vectors are summed up in groups of rows: enough of them for a GPU, and so short that little is lost by
# adding one row after another.
GROUPS, LONGEST_GROUP = 256, 16

Vector = torch.Tensor | None


def fit(input: torch.Tensor, shape: tuple[int, ...], *vectors: Vector) -> bool:
    """Tell whether the last dimensions of an input have a shape, and vectors on its device too."""
    if not (0 < len(shape) <= input.ndim and input.shape[-len(shape) :] == shape):
        return False
    given = (each for each in vectors if each is not None)

    return all(each.shape == shape and each.dtype in FLOATS and each.device == input.device for each in given)


def empty_where(needed: Sequence[bool], *likes: Vector) -> tuple[torch.Tensor, ...]:
    """Allocate what is needed like other tensors; else one element (calls that give empty tensors are not replayed)."""
    assert likes[0] is not None, "the input"
    one = likes[0].new_empty
    return tuple(
        torch.empty_like(each, memory_format=torch.contiguous_format) if is_needed and each is not None else one(1)
        for each, is_needed in zip(likes, needed)
    )


def as_rows(dims: int, tensors: Sequence[torch.Tensor], *vectors: Vector) -> tuple[Sequence, list[torch.Tensor]]:
    """View tensors whose last `dims` are a row as few dimensions and rows, and vectors of as many elements.

    In the place of a vector that is None, and is not read, comes any of the row's length.
    """
    if dims > 1:
        tensors = [each.flatten(-dims) for each in tensors]
        vectors = tuple(None if each is None else each.flatten() for each in vectors)
    tensors = coalesce(tensors, kept=1)

    return tensors, [unread(tensors[-1]) if each is None else each for each in vectors]


def unread(output: torch.Tensor) -> torch.Tensor:
    """Make a vector for a kernel that does not read it: any of the row's length will do."""
    return output[(0,) * (output.ndim - 1)] if output.numel() else output.new_empty(output.shape[-1])


def eps_or_default(input: torch.Tensor, eps: float | None) -> float:
    """Return `eps`, or that of the type in which rows are computed where it is None."""
    return torch.finfo(torch.float64 if input.dtype is torch.float64 else torch.float32).eps if eps is None else eps


def wide(tensor: torch.Tensor) -> torch.dtype:
    """The type in which rows are computed."""
    return torch.promote_types(tensor.dtype, torch.float32)


def sums_of_groups(input: torch.Tensor, count: int) -> tuple[int, list[torch.Tensor]]:
    """Choose how many rows a program adds up, one after another, and allocate so many sums of each group."""
    rows, group = input.shape[:-1].numel(), 1
    while group * GROUPS < rows and group < LONGEST_GROUP:
        group *= 2

    return group, [_empty(-(-rows // group), input) for _ in range(count)]


def sum_up(rows: torch.Tensor, total: torch.Tensor) -> None:
    """Sum up rows, as a tree."""
    if rows.shape[0] == 0:
        total.zero_()
        return
    while rows.shape[0] > column_sums.ROWS:
        sums = _empty(-(-rows.shape[0] // column_sums.ROWS), rows)
        column_sums.make()(rows, sums)
        rows = sums
    column_sums.make()(rows, total.unsqueeze(0))


def _empty(count: int, input: torch.Tensor) -> torch.Tensor:
    return torch.empty((count, input.shape[-1]), dtype=wide(input), device=input.device)


def pull_back(formula: Callable, ctx, grads, saved: Sequence[Vector] | None = None) -> list:
    """Differentiate a formula of what is saved in PyTorch's own operations: they have gradients of every order.

    ctx.output_mask says which results there are. The gradients are those of two tensors and of a weight, or None.
    """
    tensors = [each for each in (ctx.saved_tensors if saved is None else saved) if each is not None]
    needed = [each for each, is_needed in zip(grads, ctx.output_mask) if is_needed]
    if not needed:
        return [None] * 3
    found = torch.func.vjp(lambda *tensors: formula(ctx, *tensors), *tensors)[1](needed)

    return [*found, None][:3]

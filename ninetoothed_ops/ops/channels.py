"""Norms of channels: images viewed as (N, groups, channels, pixels), their statistics, and what gradients need of them.

All is added in one order: no result depends on chance.
"""

from dataclasses import dataclass

import torch

from ninetoothed.expr.sizes import power_above

from ..kernels import channel_moments, channel_norm, channel_norm_backward as gradient_kernels
from .checks import FLOATS
from .layout import is_channels_last, same_shape
from .rows import wide

# Elements of a tile; channels of one whose channels lie next to one another; programs enough for a GPU.
TILE, CHANNELS, PROGRAMS = 1024, 64, 1024

Vector = torch.Tensor | None


def fit(input: torch.Tensor, *vectors: Vector) -> bool:
    """Tell whether an input has channels, and vectors an element of a floating type for each, on its device."""
    if input.dtype not in FLOATS or input.ndim < 2:
        return False
    given = (each for each in vectors if each is not None)

    return all(
        same_shape(each.shape, input.shape[1:2]) and each.dtype in FLOATS and each.device == input.device
        for each in given
    )


def like(input: torch.Tensor) -> torch.Tensor:
    """Allocate a tensor of the shape of an image, with its channels last where those of the image are."""
    is_last = is_channels_last(input)

    return torch.empty_like(input, memory_format=torch.channels_last if is_last else torch.contiguous_format)


def in_groups(tensor: torch.Tensor, groups: int) -> torch.Tensor:
    """View (N, channels, ...) as (N, groups, channels of one, pixels)."""
    flat = tensor.flatten(2) if tensor.ndim > 2 else tensor.unsqueeze(2)

    return flat.unflatten(1, (groups, tensor.shape[1] // groups))


def in_batch(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """View each (N, channels, ...) as (1, 1, channels, N * pixels) where all lie in memory so, else (N, 1, ...)."""
    if all(each.ndim == 2 or is_channels_last(each) for each in tensors):
        return [each.movedim(1, 0).flatten(1)[None, None] for each in tensors]

    return [in_groups(each, 1) for each in tensors]


@dataclass(frozen=True)
class Sharing:
    """The channels that share a mean: those of a group of one image, or one channel of all images.

    Means are then (N, groups), or (1, channels).
    """

    of_groups: bool

    def by_mean(self, parts: torch.Tensor) -> torch.Tensor:
        """View (N, groups, channels, ...) with the dimensions of a mean first."""
        return parts if self.of_groups else parts.movedim(0, 2)

    def by_weight(self, parts: torch.Tensor) -> torch.Tensor:
        """View (N, groups, channels, ...) as (groups, channels, N, ...)."""
        return parts.movedim(0, 2)

    def of_channels(self, statistic: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
        """View what has an element for each mean as (N, groups, channels)."""
        return (statistic[..., None] if self.of_groups else statistic[None]).expand(view.shape[:3])


GROUPS_SHARE, IMAGES_SHARE = Sharing(True), Sharing(False)


def compute(sharing: Sharing, view, output, statistics, weight: Vector, bias: Vector, eps: float) -> None:
    """Write mean and variance of the input, and the norm by them."""
    if view.numel() == 0:
        for each in statistics:
            each.zero_()
        return
    blocks, size, parts = parts_of(view)
    means, squares = (view.new_empty((*view.shape[:3], parts), dtype=wide(view)) for _ in range(2))
    channel_moments.make(*blocks, size // blocks[1])(view, means, squares)
    found = sharing.by_mean(means), sharing.by_mean(squares)
    channel_moments.make_of_parts(rows_of(found[0]))(*found, *statistics, view.shape[3], size)
    mean, variance = (sharing.of_channels(each, view) for each in statistics)
    normalise(view, output, mean, variance, weight, bias, eps)


def normalise(view, output, mean, variance, weight: Vector, bias: Vector, eps: float) -> None:
    """Write (view - mean) / sqrt(variance + eps) * weight + bias; mean and variance are (N, groups, channels)."""
    vectors = (_of_weights(each, view, mean) for each in (weight, bias))
    are_given = weight is not None, bias is not None
    channel_norm.make(*blocks_of(output))(view, mean, variance, *vectors, eps, output, *are_given)


def _of_weights(vector: Vector, view: torch.Tensor, unread: torch.Tensor) -> torch.Tensor:
    """View an element for each channel as (N, groups, channels); in the place of none comes what is not read."""
    return unread if vector is None else vector.view(1, *view.shape[1:3]).expand(view.shape[:3])


def gradients(
    sharing: Sharing, grad, view, statistics, weight: Vector, eps: float, constant: bool, input_grad: Vector, vectors
) -> None:
    """Write the gradients of the input, of the weight and of the bias, but for those that are None.

    statistics: mean and variance, of the shape of means; `constant` tells whether they are not the input's own.
    """
    if view.numel() == 0:
        for each in vectors:
            if each is not None:
                each.zero_()
        return
    mean, variance = (sharing.of_channels(each, view) for each in statistics)
    blocks, size, parts = parts_of(view)
    found = [view.new_empty((*view.shape[:3], parts), dtype=wide(view)) for _ in range(2)]
    gradient_kernels.make_sums(*blocks, size // blocks[1])(grad, view, mean, *found)
    weight_grad, bias_grad = (None if each is None else each.view(view.shape[1:3]) for each in vectors)
    if weight_grad is not None or bias_grad is not None:
        added, variances = [sharing.by_weight(each) for each in found], sharing.by_weight(variance)
        given = [found[0][0, ..., 0] if each is None else each for each in (bias_grad, weight_grad)]
        flags = bias_grad is not None, weight_grad is not None
        gradient_kernels.make_vectors(rows_of(added[0]))(*added, variances, *given, eps, *flags)
    if input_grad is None:
        return
    factors = _of_weights(weight, view, mean)
    totals, share = [mean, mean], 1.0
    if not constant:
        added = [sharing.by_mean(each) for each in found]
        totals = [torch.empty_like(statistics[0]) for _ in range(2)]
        gradient_kernels.make_totals(rows_of(added[0]))(*added, sharing.by_mean(factors), *totals, weight is not None)
        share = totals[0].numel() / max(view.numel(), 1)
        totals = [sharing.of_channels(each, view) for each in totals]
    kernel = gradient_kernels.make(*blocks_of(input_grad))
    kernel(grad, view, mean, variance, factors, *totals, eps, share, input_grad, weight is not None, constant)


def allocate_gradients(name: str, grad, input, weight: Vector, bias: Vector, output_mask) -> tuple[torch.Tensor, ...]:
    """Allocate the gradients of a norm that are asked for, and an element in the place of others."""
    if not (same_shape(grad.shape, input.shape) and grad.dtype is input.dtype and fit(input, weight, bias)):
        raise RuntimeError(
            f"ninetoothed::{name} expects a grad like the input, {list(input.shape)} {input.dtype}, but "
            f"got {list(grad.shape)} {grad.dtype}"
        )
    to_input, *to_vectors = output_mask
    vectors = (
        input.new_empty(1) if each is None or not is_needed else torch.empty_like(each)
        for each, is_needed in zip((weight, bias), to_vectors)
    )

    return like(input) if to_input else input.new_empty(1), *vectors


def needed_of(outputs, output_mask) -> list[Vector]:
    """Leave out what is not asked for."""
    return [output if is_needed else None for output, is_needed in zip(outputs, output_mask)]


def written_out(dims: tuple[int, int], groups: int, statistics, ctx, grad, input, weight=None) -> list[torch.Tensor]:
    """Compute the gradients that `ctx.output_mask` asks for in PyTorch's own operations.

    dims: the dimensions of (N, groups, channels, pixels) that share a mean; statistics: mean and variance of each
    channel where they are constant, else None.
    """
    slopes, view = (in_groups(each.to(wide(each)), groups) for each in (grad, input))
    each_of = 1, *view.shape[1:3], 1
    if statistics is None:
        mean = view.mean(dims, keepdim=True)
        variance = (view - mean).square().mean(dims, keepdim=True)
    else:
        mean, variance = (each.to(view.dtype).view(each_of) for each in statistics)
    scale = torch.rsqrt(variance + ctx.eps)
    normalized = (view - mean) * scale
    to_input, to_weight, to_bias = ctx.output_mask
    found = []
    if to_input:
        slope = slopes if weight is None else slopes * weight.to(view.dtype).view(each_of)
        if statistics is None:
            along = normalized * (slope * normalized).mean(dims, keepdim=True)
            slope = slope - slope.mean(dims, keepdim=True) - along
        found.append((scale * slope).view(input.shape).to(input.dtype))
    if to_weight:
        found.append((slopes * normalized).sum((0, 3)).flatten().to(weight.dtype))
    if to_bias:
        found.append(slopes.sum((0, 3)).flatten().to(ctx.bias_dtype))

    return found


def blocks_of(view) -> tuple[int, int]:
    """Choose how many channels and pixels a tile has: most of what lies next to one another in memory."""
    channels, pixels = (power_above(max(size, 1)) for size in view.shape[2:])
    if view.stride(2) < view.stride(3) and view.shape[3] > 1:
        channels = min(channels, CHANNELS)
        return channels, min(pixels, TILE // channels)
    pixels = min(pixels, TILE)

    return min(channels, TILE // pixels), pixels


def parts_of(view) -> tuple[tuple[int, int], int, int]:
    """Choose the blocks of tiles, and cut the pixels of channels: how many a part has, and how many parts there are."""
    blocks = blocks_of(view)
    tiles = max(-(-view.shape[3] // blocks[1]), 1)
    programs = max(view.shape[0] * view.shape[1] * -(-view.shape[2] // blocks[0]), 1)
    parts = min(max(PROGRAMS // programs, 1), tiles)
    size = blocks[1] * power_above(-(-tiles // parts))

    return blocks, size, max(-(-view.shape[3] // size), 1)


def rows_of(parts: torch.Tensor) -> int:
    """Choose how many rows of (p, q, rows, parts) a tile has that is added up."""
    rows, columns = (power_above(max(size, 1)) for size in parts.shape[2:])

    return min(rows, max(TILE // columns, 1))

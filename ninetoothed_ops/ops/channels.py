"""Norms of channels: images viewed as (N, groups, channels, pixels), their statistics, and what gradients need of them.

Statistics and what scales by them are of the shape (N, groups, channels), or expand to it. All is added in one order:
no result depends on chance.
"""

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


def vector(values: Vector, view: torch.Tensor, default: float) -> torch.Tensor:
    """View an element for each channel as (1, groups, channels), in the type in which a norm is computed."""
    if values is None:
        return torch.full((), default, dtype=wide(view), device=view.device)

    return values.to(wide(view)).view(1, *view.shape[1:3])


def moments(view: torch.Tensor, dims: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute mean and variance over the pixels and other dimensions, which stay as dimensions of size 1."""
    blocks, size, parts = _parts(view)
    means, squares = (view.new_empty((*view.shape[:3], parts), dtype=wide(view)) for _ in range(2))
    channel_moments.make(*blocks, size // blocks[1])(view, means, squares)
    pixels, dims = view.shape[3], (*dims, 3)
    counts = (pixels - size * torch.arange(parts, device=view.device)).clamp(max=size).to(means.dtype)
    count = _count(view, dims)
    mean = (means * counts).sum(dims, keepdim=True) / count
    variance = (squares + counts * (means - mean).square()).sum(dims, keepdim=True) / count

    return mean[..., 0], variance[..., 0]


def normalise(view, output, mean, rstd, weight: Vector, bias: Vector) -> None:
    """Write (view - mean) * rstd * weight + bias."""
    vectors = mean, rstd * vector(weight, view, 1.0), vector(bias, view, 0.0)
    shared = [each.expand(view.shape[:3]) for each in vectors]
    channel_norm.make(*_blocks(output))(view, *shared, output)


def gradients(grad, view, mean, rstd, weight: Vector, dims: tuple[int, ...] | None, input_grad: Vector):
    """Write the gradient of the input, if there is one to write, and return those of weight and bias, in wide types.

    dims: those over which mean and variance are of the input, besides its pixels; None where they are constants.
    """
    shape, factor = view.shape[:3], vector(weight, view, 1.0)
    blocks, size, parts = _parts(view)
    totals, products = (view.new_empty((*shape, parts), dtype=wide(view)) for _ in range(2))
    centre = mean.expand(shape)
    gradient_kernels.make_sums(*blocks, size // blocks[1])(grad, view, centre, totals, products)
    total, product = totals.sum(3), products.sum(3) * rstd
    if input_grad is not None:
        slope = offset = rstd.new_zeros(())
        if dims is not None:
            count = _count(view, (*dims, 3))
            slope = rstd * rstd * ((factor * product).sum(dims, keepdim=True) / count)
            offset = rstd * ((factor * total).sum(dims, keepdim=True) / count)
        shared = [each.expand(shape) for each in (rstd * factor, slope, offset)]
        gradient_kernels.make(*_blocks(input_grad))(grad, view, centre, *shared, input_grad)

    return product.sum(0).flatten(), total.sum(0).flatten()


def _count(view, dims) -> int:
    count = 1
    for dim in dims:
        count *= view.shape[dim]

    return count


def _blocks(view) -> tuple[int, int]:
    """Choose how many channels and pixels a tile has: most of what lies next to one another in memory."""
    channels, pixels = (power_above(max(size, 1)) for size in view.shape[2:])
    if view.stride(2) < view.stride(3) and view.shape[3] > 1:
        channels = min(channels, CHANNELS)
        return channels, min(pixels, TILE // channels)
    pixels = min(pixels, TILE)

    return min(channels, TILE // pixels), pixels


def _parts(view) -> tuple[tuple[int, int], int, int]:
    """Choose the blocks of tiles, and cut the pixels of channels: how many a part has, and how many parts there are."""
    blocks = _blocks(view)
    tiles = max(-(-view.shape[3] // blocks[1]), 1)
    programs = max(view.shape[0] * view.shape[1] * -(-view.shape[2] // blocks[0]), 1)
    parts = min(max(PROGRAMS // programs, 1), tiles)
    size = blocks[1] * power_above(-(-tiles // parts))

    return blocks, size, max(-(-view.shape[3] // size), 1)

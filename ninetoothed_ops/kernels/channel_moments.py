"""mean[n, g, k, part] of input[n, g, k, p] over the p of a part, and squares, the sum of (input - mean)^2 over them.

A channel (n, g, k) has its pixels p cut in parts, of which each program has one of some channels: it goes through it
tile by tile, by the mean and the squares of the tiles so far. `make_of_parts` has the kernel that puts parts together.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .numeric import computed, widen


def tiles(tensor, channels, pixels, rounds):
    """Give each program `rounds` tiles of so many channels and pixels, to loop over."""
    return tensor.tile(None, None, channels, pixels, loop={3: rounds})


def of_parts(tensor, channels):
    """Give each program an element for each of its channels, of its part."""
    return tensor.tile(None, None, channels, None)


def arrangement(input, mean, squares, channels, pixels, rounds):
    return tiles(input, channels, pixels, rounds), of_parts(mean, channels), of_parts(squares, channels)


def application(input, mean, squares, pixels, rounds):
    dtype = computed(input.dtype.dtype)
    centre, total = ntl.zeros(mean.shape, dtype=dtype), ntl.zeros(mean.shape, dtype=dtype)
    count = min(pixels * rounds, input.source.shape[3] - mean.offsets(3) * (pixels * rounds))

    for i in range((count + pixels - 1) // pixels):
        wide = widen(input[i])
        before, after = i * pixels, min((i + 1) * pixels, count)
        shift = ntl.sum(wide, axis=1) / (after - before) - centre
        centred = wide - (centre + shift)[:, None]
        # How far the tile moves the mean; a quotient of the counts themselves would be one of float32.
        moved = shift * (after - before) / after
        total += ntl.sum(centred * centred, axis=1) + shift * moved * before
        centre += moved

    mean = centre
    squares = total


@functools.cache
def make(channels=1, pixels=1024, rounds=1):
    """The kernel `(input, mean, squares)`: (N, groups, channels, pixels) and twice (N, groups, channels, parts).

    A part is of `rounds` tiles of so many pixels.
    """
    arranged = functools.partial(arrangement, channels=channels, pixels=pixels, rounds=rounds)
    apply = functools.partial(application, pixels=pixels, rounds=rounds)

    return ninetoothed.make(arranged, apply, tuple(Tensor(4) for _ in range(3)), kernel_name="channel_moments")


def to_add_up(tensor, rows):
    """Give each program (p, q) all of (p, q, a, part), or of (p, q, a), in tiles of so many rows a, to loop over."""
    if tensor.ndim == 4:
        return tensor.tile(None, None, rows, -1, loop=2).squeeze((2, 3))
    return tensor.tile(None, None, rows, loop=2).squeeze(2)


def arrangement_of_parts(means, squares, mean, variance, pixels, size, rows):
    parts = (to_add_up(each, rows) for each in (means, squares))

    return *parts, mean.tile(None, None), variance.tile(None, None), pixels, size


def application_of_parts(means, squares, mean, variance, pixels, size):
    dtype = means.dtype.dtype
    total, spread = ntl.zeros((), dtype=dtype), ntl.zeros((), dtype=dtype)
    number = ntl.cast(means.source.shape[2], dtype) * ntl.cast(pixels, dtype)

    for i in range(means.shape[0]):
        total += ntl.sum(means[i] * counts(means[i], pixels, size))
    centre = total / number
    for i in range(means.shape[0]):
        moved = means[i] - centre
        spread += ntl.sum(squares[i] + moved * moved * counts(means[i], pixels, size))

    mean = centre
    variance = spread / number


def counts(parts, pixels, size):
    """Count the pixels of each part of a tile, `size` but for the last, as a row beside the tile."""
    left = pixels - parts.offsets(3) * size

    return ntl.cast(ntl.minimum(left, size), parts.dtype)[None, :]


@functools.cache
def make_of_parts(rows=1):
    """The kernel `(means, squares, mean, variance, pixels, size)`: twice (p, q, a, parts), twice (p, q), and numbers.

    It gives mean and variance over a and the parts, which have `size` pixels each, and `pixels` together.
    """
    tensors = Tensor(4), Tensor(4), Tensor(2), Tensor(2), Tensor(0), Tensor(0)
    arranged = functools.partial(arrangement_of_parts, rows=rows)

    return ninetoothed.make(arranged, application_of_parts, tensors, kernel_name="moments_of_parts")

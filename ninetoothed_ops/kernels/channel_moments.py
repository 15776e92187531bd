"""mean[n, g, k, part] of input[n, g, k, p] over the p of a part, and squares, the sum of (input - mean)^2 over them.

A channel (n, g, k) has its pixels p cut in parts, of which each program has one of some channels: it goes through it
tile by tile, by the mean and the squares of the tiles so far.
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

"""output[i] = input[i] / (1 - rate) where u(seed, i) >= rate, else input[i] * 0, with u uniform in [0, 1).

i is the number of the element in the order of its shape, whatever its strides: a gradient gets the same mask, which is
a function of seed and place (Philox), and never stored. Philox gives four numbers at once: element i has number i % 4
of those that i // 4 draws.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange, block_size

from .numeric import computed, widen


def places(tile):
    """Number the elements of a tile in the order of the tensor's shape."""
    place = ntl.cast(tile.offsets(0), ntl.int64)
    for dim in ntl.static_range(1, tile.source.ndim):
        place = place * tile.source.shape[dim] + tile.offsets(dim)

    return place


def chosen(place, first, second, third, fourth):
    """Return the number of each element among the four of its draw."""
    number = place % 4

    return ntl.where(number < 2, ntl.where(number == 0, first, second), ntl.where(number == 2, third, fourth))


def dropped(input, uniform, rate, scale):
    factor = ntl.where(uniform >= rate, ntl.cast(scale, computed(input.dtype)), 0.0)

    return widen(input) * factor


def application(input, seed, rate, scale, output):
    place = places(input)

    output = dropped(input, chosen(place, *ntl.rand4x(seed, place // 4)), rate, scale)


@functools.cache
def make(ndim=1):
    """The kernel `(input, seed, rate, scale, output)` for tensors of `ndim` dimensions; scale: 1 / (1 - rate), or 0."""
    tensors = Tensor(ndim), Tensor(0), Tensor(0), Tensor(0), Tensor(ndim)

    return ninetoothed.make(arrange.blocks, application, tensors, kernel_name="dropout")


def arrangement_of_fours(input, seed, rate, scale, output, ROWS=block_size()):
    """Give each program rows of four elements, which share a draw."""
    input, output = (each.tile(4).ravel().tile(ROWS, -1).squeeze(1) for each in (input, output))

    return input, seed, rate, scale, output


def application_of_fours(input, seed, rate, scale, output):
    place = places(input)
    draws = [each[:, None] for each in ntl.rand4x(seed, ntl.min(place, axis=1) // 4)]

    output = dropped(input, chosen(place, *draws), rate, scale)


@functools.cache
def make_of_vectors():
    """The same for vectors, with a quarter of the draws."""
    tensors = Tensor(1), Tensor(0), Tensor(0), Tensor(0), Tensor(1)

    return ninetoothed.make(arrangement_of_fours, application_of_fours, tensors, kernel_name="dropout")

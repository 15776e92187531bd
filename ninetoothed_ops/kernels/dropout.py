"""output[i] = input[i] / (1 - rate) where u(seed, i) >= rate, else input[i] * 0, with u uniform in [0, 1).

i is the number of the element in the order of its shape, whatever its strides: a gradient gets the same mask, which is
a function of seed and place (Philox), and never stored.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

from .numeric import computed, widen


def places(tile):
    """Number the elements of a tile in the order of the tensor's shape."""
    place = ntl.cast(tile.offsets(0), ntl.int64)
    for dim in ntl.static_range(1, tile.source.ndim):
        place = place * tile.source.shape[dim] + tile.offsets(dim)

    return place


def application(input, seed, rate, scale, output):
    is_kept = ntl.rand(seed, places(input)) >= rate
    factor = ntl.where(is_kept, ntl.cast(scale, computed(input.dtype)), 0.0)

    output = widen(input) * factor


@functools.cache
def make(ndim=1):
    """The kernel `(input, seed, rate, scale, output)` for tensors of `ndim` dimensions; scale: 1 / (1 - rate), or 0."""
    tensors = Tensor(ndim), Tensor(0), Tensor(0), Tensor(0), Tensor(ndim)

    return ninetoothed.make(arrange.blocks, application, tensors, kernel_name="dropout")

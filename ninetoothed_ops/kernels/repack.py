"""output[n, c, p] = input[n, c, p], where pixels are the runs of one's memory and channels those of the other's.

A tile is read and written in runs of memory: between, threads exchange it through shared memory.
"""

import functools

import ninetoothed
from ninetoothed import Tensor

# Channels and pixels of a tile: those of filters are few.
FEW_PIXELS = 16


def arrangement(input, output, channels, pixels):
    return tuple(tensor.tile(None, channels, pixels) for tensor in (input, output))


def application(input, output):
    output = input


@functools.cache
def make(has_few_pixels=False):
    """The kernel `(input, output)` for tensors of three dimensions; `has_few_pixels` tells of at most FEW_PIXELS."""
    channels, pixels = (128, FEW_PIXELS) if has_few_pixels else (64, 64)
    arrange = functools.partial(arrangement, channels=channels, pixels=pixels)

    return ninetoothed.make(arrange, application, (Tensor(3), Tensor(3)), kernel_name="repack")

"""x[i] = x[i] * factor, in place; where the factor is 1, nothing is read or written."""

import functools

import ninetoothed
from ninetoothed import Tensor

from .numeric import widen

# Programs that find nothing to do take a while by their number alone: few, each with much to do.
BLOCK_SIZE, BLOCKS = 8192, 16


def arrangement(x, factor):
    return x.tile(BLOCK_SIZE, loop={0: BLOCKS}), factor


def application(x, factor):
    if factor != 1:
        for i in range(x.shape[0]):
            x[i] = widen(x[i]) * factor


@functools.cache
def make():
    """The kernel `(x, factor)` for vectors; a factor on the device is not waited for."""
    return ninetoothed.make(arrangement, application, (Tensor(1), Tensor(0)), kernel_name="scaled")

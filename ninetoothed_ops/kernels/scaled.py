"""x[i] = x[i] * factor, in place; where the factor is 1, nothing is read or written."""

import functools

import ninetoothed
from ninetoothed import Tensor, arrange

from .numeric import widen

# Programs that find nothing to do take a while by their number alone: few, each with much to do.
arrangement = functools.partial(arrange.blocks, BLOCK_SIZE=8192)


def application(x, factor):
    if factor != 1:
        x = widen(x) * factor


@functools.cache
def make():
    """The kernel `(x, factor)` for vectors; a factor on the device is not waited for."""
    return ninetoothed.make(arrangement, application, (Tensor(1), Tensor(0)), kernel_name="scaled")

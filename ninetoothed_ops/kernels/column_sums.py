"""output[i] = sum of input[row, i] over all rows, in one order."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size

ROWS = 16
COLUMNS = block_size(lower_bound=32, upper_bound=128)


def arrangement(input, output):
    tiled = input.tile((ROWS, COLUMNS)).tile((-1, 1)).squeeze(0)
    tiled.dtype = tiled.dtype.squeeze(1)

    return tiled, output.tile((COLUMNS,))


def application(input, output):
    total = ntl.zeros(input.dtype.shape, dtype=input.dtype.dtype)

    for i in range(input.shape[0]):
        total += input[i]

    output = ntl.sum(total, axis=0)


@functools.cache
def make():
    """The kernel `(input, output)` for a matrix and a vector."""
    return ninetoothed.make(arrangement, application, (Tensor(2), Tensor(1)), kernel_name="column_sums")

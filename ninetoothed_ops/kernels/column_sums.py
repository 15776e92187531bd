"""output[g, i] = sum of input[row, i] over the rows of group g, as a tree: of `ROWS` rows each."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size

ROWS = 512


def arrangement(input, output, COLUMNS=block_size(lower_bound=16, upper_bound=32)):
    return input.tile((ROWS, COLUMNS)), output.tile(None, COLUMNS)


def application(input, output):
    output = ntl.sum(input, axis=0)


@functools.cache
def make():
    """The kernel `(input, output)` for matrices."""
    return ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2)), kernel_name="column_sums")

"""output[i] = sum of input[part, i] over all parts, in one order."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size

# As many parts are read at once.
PARTS = 16


def arrangement(input, output, SIZE=block_size(lower_bound=32, upper_bound=128)):
    input_arranged = input.tile((PARTS, SIZE)).tile((-1, 1)).squeeze(0)
    input_arranged.dtype = input_arranged.dtype.squeeze(1)

    return input_arranged, output.tile((SIZE,))


def application(input, output):
    total = ntl.zeros(input.dtype.shape, dtype=input.dtype.dtype)

    for i in range(input.shape[0]):
        total += input[i]

    output = ntl.sum(total, axis=0)


@functools.cache
def make():
    """The kernel `(input, output)` for a matrix and a vector."""
    return ninetoothed.make(arrangement, application, (Tensor(2), Tensor(1)), kernel_name="sum_of_parts")

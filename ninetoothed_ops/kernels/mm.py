"""output[m, n] = sum over k of input[m, k] * other[k, n]."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size

BLOCK_SIZE_M = block_size(lower_bound=16)
BLOCK_SIZE_N = block_size(lower_bound=16)
BLOCK_SIZE_K = block_size()


def arrangement(input, other, output):
    output_arranged = output.tile(BLOCK_SIZE_M, BLOCK_SIZE_N)
    input_arranged = input.tile(BLOCK_SIZE_M, BLOCK_SIZE_K, loop=1).expand(-1, output_arranged.shape[1])
    other_arranged = other.tile(BLOCK_SIZE_K, BLOCK_SIZE_N, loop=0).expand(output_arranged.shape[0], -1)

    return input_arranged, other_arranged, output_arranged


def application(input, other, output):
    accumulator = ntl.zeros(output.shape, dtype=ntl.float32)

    for k in range(input.shape[0]):
        accumulator += ntl.dot(input[k], other[k])

    output = accumulator


@functools.cache
def make():
    """The kernel `(input, other, output)` for matrices."""
    return ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2), Tensor(2)), kernel_name="mm")

"""output[b, m, n] = sum over k of input[b, m, k] * other[b, k, n]."""

import functools

import ninetoothed
from ninetoothed import Tensor

from . import mm
from .mm import BLOCK_SIZE_K, BLOCK_SIZE_M, BLOCK_SIZE_N


def arrangement(input, other, output):
    output_arranged = output.tile(None, BLOCK_SIZE_M, BLOCK_SIZE_N)
    input_arranged = input.tile(None, BLOCK_SIZE_M, BLOCK_SIZE_K, loop=2).expand(-1, -1, output_arranged.shape[2])
    other_arranged = other.tile(None, BLOCK_SIZE_K, BLOCK_SIZE_N, loop=1).expand(-1, output_arranged.shape[1], -1)

    return input_arranged, other_arranged, output_arranged


@functools.cache
def make():
    """The kernel `(input, other, output)` for batches of matrices."""
    return ninetoothed.make(arrangement, mm.application, (Tensor(3), Tensor(3), Tensor(3)), kernel_name="bmm")

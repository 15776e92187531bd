"""output = beta * input + alpha * (mat1 @ mat2)."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from . import mm


def arrangement(input, mat1, mat2, beta, alpha, output):
    _, _, input_arranged = mm.arrangement(mat1, mat2, input)
    mat1_arranged, mat2_arranged, output_arranged = mm.arrangement(mat1, mat2, output)

    return input_arranged, mat1_arranged, mat2_arranged, beta, alpha, output_arranged


def application(input, mat1, mat2, beta, alpha, output):
    product = ntl.zeros(output.shape, dtype=ntl.float32)
    mm.application(mat1, mat2, product)

    output = beta * input + alpha * product


@functools.cache
def make():
    """The kernel `(input, mat1, mat2, beta, alpha, output)` for matrices."""
    tensors = (Tensor(2), Tensor(2), Tensor(2), Tensor(0), Tensor(0), Tensor(2))

    return ninetoothed.make(arrangement, application, tensors, kernel_name="addmm")

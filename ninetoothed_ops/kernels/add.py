"""output = input + alpha * other, for tensors of one shape."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

from .numeric import computed, rounded


def application(input, other, alpha, output):
    scale = ntl.cast(alpha, computed(output.dtype))
    output = rounded(input, output.dtype) + scale * rounded(other, output.dtype)


@functools.cache
def make(ndim=1):
    """The kernel `(input, other, alpha, output)` for tensors of `ndim` dimensions."""
    tensors = (Tensor(ndim), Tensor(ndim), Tensor(0), Tensor(ndim))

    return ninetoothed.make(arrange.blocks, application, tensors, kernel_name="add")

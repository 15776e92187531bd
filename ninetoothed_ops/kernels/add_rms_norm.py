"""sum = input + residual, and output = rms_norm(sum, weight, eps): the sum is stored, and not read again.

The sum is rounded to its type before it is normed: the outputs are those of `add` and `rms_norm` one after another.
"""

import functools

import ninetoothed
from ninetoothed import Tensor, arrange

from . import rms_norm
from .numeric import widen


def application(input, residual, sum):
    sum = widen(input) + widen(residual)


@functools.cache
def make(ndim=2):
    """The kernel `(input, residual, sum, weight, eps, output, weighted)` for tensors of `ndim` dimensions.

    Where `weighted` is false, `weight` is any vector of the row's length: it is not read.
    """
    add = ninetoothed.make(arrange.rows, application, tuple(Tensor(ndim) for _ in range(3)), kernel_name="add_rows")

    return ninetoothed.fuse(add, rms_norm.make(ndim), {"input": "sum"}, keep=("sum",), kernel_name="add_rms_norm")

"""output[i] = exp(input[i] - max(input)) / (sum over j of exp(input[j] - max(input))), for each row."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

from .numeric import exponential, widen


def application(input, output):
    wide = widen(input)
    numerator = exponential(wide - ntl.max(wide), output.dtype)

    output = numerator / ntl.sum(numerator)


@functools.cache
def make(ndim=2):
    """The kernel `(input, output)` for tensors of `ndim` dimensions, whose last is the row."""
    tensors = (Tensor(ndim), Tensor(ndim))

    return ninetoothed.make(arrange.rows, application, tensors, kernel_name="softmax")

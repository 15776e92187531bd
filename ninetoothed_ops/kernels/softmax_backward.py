"""input_grad[i] = output[i] * (grad[i] - (sum over j of grad[j] * output[j])), for each row."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

from .numeric import widen


def application(grad, output, input_grad):
    weighted = widen(grad) * widen(output)

    input_grad = weighted - widen(output) * ntl.sum(weighted)


@functools.cache
def make(ndim=2):
    """The kernel `(grad, output, input_grad)` for tensors of `ndim` dimensions, whose last is the row."""
    tensors = tuple(Tensor(ndim) for _ in range(3))

    return ninetoothed.make(arrange.rows, application, tensors, kernel_name="softmax_backward")

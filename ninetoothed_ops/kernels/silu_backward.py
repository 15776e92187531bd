"""input_grad = grad * (s + input * s * (1 - s)), where s = sigmoid(input)."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .elementwise import arrangement
from .numeric import widen


def application(grad, input, input_grad):
    wide = widen(input)
    gate = ntl.sigmoid(wide)

    input_grad = grad * (gate * (1 + wide * (1 - gate)))


@functools.cache
def make(ndim=1):
    """The kernel `(grad, input, input_grad)` for tensors of `ndim` dimensions."""
    tensors = tuple(Tensor(ndim) for _ in range(3))

    return ninetoothed.make(arrangement, application, tensors, kernel_name="silu_backward")

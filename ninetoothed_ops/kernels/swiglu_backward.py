"""The gradients of gate * s * up, where s = sigmoid(gate), element by element.

gate_grad = grad * up * (s + gate * s * (1 - s)), and up_grad = grad * gate * s.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .elementwise import arrangement
from .numeric import widen


def application(grad, gate, up, gate_grad, up_grad):
    wide, slope = widen(gate), widen(grad)
    sigmoid = ntl.sigmoid(wide)

    gate_grad = slope * widen(up) * (sigmoid * (1 + wide * (1 - sigmoid)))
    up_grad = slope * (wide * sigmoid)


@functools.cache
def make(ndim=1):
    """The kernel `(grad, gate, up, gate_grad, up_grad)` for tensors of `ndim` dimensions."""
    tensors = tuple(Tensor(ndim) for _ in range(5))

    return ninetoothed.make(arrangement, application, tensors, kernel_name="swiglu_backward")

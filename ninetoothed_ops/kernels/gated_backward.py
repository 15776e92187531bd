"""gate_grad = grad * up * function'(gate), and up_grad = grad * function(gate), for a function of `functions`."""

import functools

import ninetoothed
from ninetoothed import Tensor

from .elementwise import arrangement
from .functions import FUNCTIONS, kernel_name
from .numeric import widen


@functools.cache
def make(name="gelu", ndim=1):
    """The kernel `(grad, gate, up, gate_grad, up_grad)` of a function, for tensors of `ndim` dimensions."""
    function, gradient = FUNCTIONS[name]

    def application(grad, gate, up, gate_grad, up_grad):
        wide, slope = widen(gate), widen(grad)

        gate_grad = gradient(slope * widen(up), wide)
        up_grad = slope * function(wide)

    tensors = tuple(Tensor(ndim) for _ in range(5))

    named = kernel_name("gated", name, "_backward")

    return ninetoothed.make(arrangement, application, tensors, kernel_name=named)

"""output = function(gate) * up, element by element, for a function of `functions`.

And its gradients: gate_grad = grad * up * function'(gate), and up_grad = grad * function(gate); with them, where it is
needed again, the output.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

from .functions import FUNCTIONS, OF_STORED, kernel_name
from .numeric import widen


def applying(name):
    """The application of a function."""
    function, _ = FUNCTIONS[name]

    def application(gate, up, output):
        output = function(widen(gate)) * up

    def rounded_application(gate, up, output):
        activated = ntl.cast(function(gate), gate.dtype)

        output = activated * widen(up)

    return rounded_application if name in OF_STORED else application


@functools.cache
def make(name="gelu", ndim=1):
    """The kernel `(gate, up, output)` of a function, for tensors of `ndim` dimensions."""
    tensors = tuple(Tensor(ndim) for _ in range(3))

    return ninetoothed.make(arrange.blocks, applying(name), tensors, kernel_name=kernel_name("gated", name))


@functools.cache
def make_backward(name="gelu", ndim=1):
    """The kernel `(grad, gate, up, gate_grad, up_grad)` of a function, for tensors of `ndim` dimensions."""
    function, gradient = FUNCTIONS[name]

    def application(grad, gate, up, gate_grad, up_grad):
        wide, slope = widen(gate), widen(grad)

        gate_grad = gradient(slope * widen(up), wide)
        up_grad = slope * function(wide)

    tensors = tuple(Tensor(ndim) for _ in range(5))

    named = kernel_name("gated", name, "_backward")

    return ninetoothed.make(arrange.blocks, application, tensors, kernel_name=named)


@functools.cache
def make_backward_with_output(name="silu", ndim=1):
    """The kernel `(grad, gate, up, gate_grad, up_grad, output)` of a function, for tensors of `ndim` dimensions."""
    function, gradient = FUNCTIONS[name]

    def of_wide(gate, up):
        return function(widen(gate)) * up

    def of_stored(gate, up):
        return ntl.cast(function(gate), gate.dtype) * widen(up)

    product = of_stored if name in OF_STORED else of_wide

    def application(grad, gate, up, gate_grad, up_grad, output):
        wide, slope = widen(gate), widen(grad)

        gate_grad = gradient(slope * widen(up), wide)
        up_grad = slope * function(wide)
        output = product(gate, up)

    tensors = tuple(Tensor(ndim) for _ in range(6))

    named = kernel_name("gated", name, "_backward_with_output")

    return ninetoothed.make(arrange.blocks, application, tensors, kernel_name=named)

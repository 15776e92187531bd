"""output = function(input), element by element, for a function of `functions`.

And its gradient: input_grad = grad * function'(input).
"""

import functools

import ninetoothed
from ninetoothed import Tensor, arrange

from .functions import FUNCTIONS, kernel_name, read
from .numeric import widen


@functools.cache
def make(name="gelu", ndim=1):
    """The kernel `(input, output)` of a function, for tensors of `ndim` dimensions."""
    function, _ = FUNCTIONS[name]

    def application(input, output):
        output = function(read(input, name))

    tensors = (Tensor(ndim), Tensor(ndim))

    return ninetoothed.make(arrange.blocks, application, tensors, kernel_name=kernel_name("activation", name))


@functools.cache
def make_backward(name="gelu", ndim=1):
    """The kernel `(grad, input, input_grad)` of the gradient of a function, for tensors of `ndim` dimensions."""
    _, gradient = FUNCTIONS[name]

    def application(grad, input, input_grad):
        input_grad = gradient(grad, widen(input))

    tensors = tuple(Tensor(ndim) for _ in range(3))
    named = kernel_name("activation", name, "_backward")

    return ninetoothed.make(arrange.blocks, application, tensors, kernel_name=named)

"""`activation(Tensor self, str function) -> Tensor`: an activation function, element by element."""

from ..kernels import activation as kernels
from ..registration import register
from . import activation_backward, functions
from .checks import FLOATS, refuse
from .layout import coalesce, empty_elementwise


def allocate(self, function):
    functions.check("activation", function)
    if self.dtype not in FLOATS:
        refuse("activation", functions.FUNCTIONS[function], self)

    return empty_elementwise((self,), self.shape, self.dtype, self.device)


def launch(output, self, function):
    self, output = coalesce((self, output))
    kernels.make(function, output.ndim)(self, output)


def setup_context(ctx, inputs, output):
    self, ctx.function = inputs
    ctx.save_for_backward(self)


def backward(ctx, grad):
    return activation_backward.operator(grad, *ctx.saved_tensors, ctx.function), None


operator = register(
    "ninetoothed::activation(Tensor self, str function) -> Tensor",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
)

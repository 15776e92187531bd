"""`activation_backward(Tensor grad, Tensor self, str function) -> Tensor`: the gradient of `activation`."""

import torch

from ..kernels import activation_backward as kernels
from ..registration import register
from . import functions
from .checks import alike
from .layout import coalesce, empty_elementwise


def allocate(grad, self, function):
    functions.check("activation_backward", function)
    if not (grad.shape == self.shape and alike(grad, self)):
        raise RuntimeError(
            f"ninetoothed::activation_backward expects a grad like the input, {list(self.shape)} {self.dtype} on "
            f"{self.device}, but got {list(grad.shape)} {grad.dtype} on {grad.device}"
        )

    return empty_elementwise((self,), self.shape, self.dtype, self.device)


def launch(output, grad, self, function):
    grad, self, output = coalesce((grad, self, output))
    kernels.make(function, output.ndim)(grad, self, output)


def setup_context(ctx, inputs, output):
    *tensors, ctx.function = inputs
    ctx.save_for_backward(*tensors)


def backward(ctx, grad_of_grad):
    """Differentiate the formula in PyTorch's own operations: they have gradients of every order."""

    def formula(grad, self):
        pull_back = torch.func.vjp(lambda x: functions.in_float32(ctx.function, x), self)[1]
        return pull_back(grad.to(torch.promote_types(self.dtype, torch.float32)))[0]

    return *torch.func.vjp(formula, *ctx.saved_tensors)[1](grad_of_grad), None


operator = register(
    "ninetoothed::activation_backward(Tensor grad, Tensor self, str function) -> Tensor",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
)

"""`silu_backward(Tensor grad, Tensor self) -> Tensor`: the gradient of `silu`, as `torch.ops.aten.silu_backward`."""

import torch

from ..kernels import silu_backward as kernels
from ..registration import register
from .checks import alike, refuse
from .layout import coalesce, empty_elementwise


def allocate(grad, self):
    if not (grad.shape == self.shape and alike(grad, self)):
        refuse("silu_backward", torch.ops.aten.silu_backward, grad, self)

    return empty_elementwise((self,), self.shape, self.dtype, self.device)


def launch(output, grad, self):
    grad, self, output = coalesce((grad, self, output))
    kernels.make(output.ndim)(grad, self, output)


def setup_context(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def backward(ctx, grad_of_grad):
    grad, self = ctx.saved_tensors
    to_grad, to_self = ctx.needs_input_grad

    return (
        operator(grad_of_grad, self) if to_grad else None,
        grad_of_grad * grad * second_derivative(self) if to_self else None,
    )


def second_derivative(self: torch.Tensor) -> torch.Tensor:
    """Compute s * (1 - s) * (2 + self * (1 - 2 * s)), where s = sigmoid(self)."""
    wide = self.to(torch.promote_types(self.dtype, torch.float32))
    gate = wide.sigmoid()

    return (gate * (1 - gate) * (2 + wide * (1 - 2 * gate))).to(self.dtype)


operator = register(
    "ninetoothed::silu_backward(Tensor grad, Tensor self) -> Tensor",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
)

"""`gated_backward(Tensor grad, Tensor gate, Tensor up, str function) -> (Tensor, Tensor)`: the gradients of `gated`."""

import torch

from ..kernels import gated_backward as kernels
from ..registration import register
from . import functions
from .checks import are_floats
from .layout import coalesce, empty_elementwise


def allocate(grad, gate, up, function):
    functions.check("gated_backward", function)
    if not (grad.shape == gate.shape == up.shape and are_floats(grad, gate, up)):
        raise RuntimeError(
            "ninetoothed::gated_backward expects a grad, a gate and an up of floating types, one shape and one device, "
            f"but got {list(grad.shape)}, {list(gate.shape)} and {list(up.shape)}"
        )

    return tuple(empty_elementwise((each,), each.shape, each.dtype, each.device) for each in (gate, up))


def launch(outputs, grad, gate, up, function):
    tensors = coalesce((grad, gate, up, *outputs))
    kernels.make(function, tensors[0].ndim)(*tensors)


def setup_context(ctx, inputs, output):
    *tensors, ctx.function = inputs
    ctx.save_for_backward(*tensors)


def backward(ctx, *grads):
    """Differentiate the formula in PyTorch's own operations: they have gradients of every order."""

    def formula(grad, gate, up):
        pull_back = torch.func.vjp(lambda gate, up: functions.in_float32(ctx.function, gate) * up, gate, up)[1]
        return pull_back(grad.to(torch.promote_types(torch.promote_types(gate.dtype, up.dtype), torch.float32)))

    return *torch.func.vjp(formula, *ctx.saved_tensors)[1](grads), None


operator = register(
    "ninetoothed::gated_backward(Tensor grad, Tensor gate, Tensor up, str function) -> (Tensor, Tensor)",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
)

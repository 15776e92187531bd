"""`swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)`: the gradients of `swiglu`."""

import torch
from torch.nn import functional

from ..kernels import swiglu_backward as kernels
from ..registration import register
from . import silu_backward
from .checks import are_floats, refuse
from .layout import coalesce, empty_elementwise


def namesake(grad, gate, up):
    return torch.ops.aten.silu_backward(grad * up, gate), grad * functional.silu(gate)


def allocate(grad, gate, up):
    if not (grad.shape == gate.shape == up.shape and are_floats(grad, gate, up)):
        refuse("swiglu_backward", namesake, grad, gate, up)

    return tuple(empty_elementwise((each,), each.shape, each.dtype, each.device) for each in (gate, up))


def launch(outputs, grad, gate, up):
    tensors = coalesce((grad, gate, up, *outputs))
    kernels.make(tensors[0].ndim)(*tensors)


def setup_context(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def backward(ctx, grad_of_gate_grad, grad_of_up_grad):
    """The gradients of grad * up * f'(gate) and grad * f(gate), where f is silu."""
    dtype = ctx.saved_tensors[0].dtype
    tensors = (*ctx.saved_tensors, grad_of_gate_grad, grad_of_up_grad)
    # Of several types, all in that of the result; autograd casts what each is given.
    grad, gate, up, grad_of_gate_grad, grad_of_up_grad = (each.to(dtype) for each in tensors)
    to_grad, to_gate, to_up = ctx.needs_input_grad
    slope, swiglu = silu_backward.operator, torch.ops.ninetoothed.swiglu

    return (
        slope(grad_of_gate_grad * up, gate) + swiglu(gate, grad_of_up_grad) if to_grad else None,
        grad_of_gate_grad * grad * up * silu_backward.second_derivative(gate) + slope(grad_of_up_grad * grad, gate)
        if to_gate
        else None,
        slope(grad_of_gate_grad * grad, gate) if to_up else None,
    )


operator = register(
    "ninetoothed::swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
)

"""`softmax_backward(Tensor grad, Tensor output, int dim, ScalarType input_dtype) -> Tensor`: `softmax`'s gradient."""

import torch

from ..kernels import long_rows, long_rows_backward, softmax_backward as kernels
from ..registration import register
from .checks import FLOATS, alike, refuse
from .layout import coalesce


def namesake(grad, output, dim, input_dtype):
    return (output * (grad - (grad * output).sum(dim, keepdim=True))).to(input_dtype)


def allocate(grad, output, dim, input_dtype):
    ndim = max(output.ndim, 1)
    fits = grad.shape == output.shape and alike(grad, output)
    if not (fits and -ndim <= dim < ndim and input_dtype in FLOATS):
        refuse("softmax_backward", namesake, grad, output, dim, input_dtype)

    return torch.empty_like(output, dtype=input_dtype, memory_format=torch.contiguous_format)


def launch(input_grad, grad, output, dim, input_dtype):
    tensors = [grad, output, input_grad]
    if output.ndim == 0:
        tensors = [tensor.unsqueeze(0) for tensor in tensors]
    if dim not in (-1, output.ndim - 1):
        tensors = [tensor.movedim(dim, -1) for tensor in tensors]

    grad, output, input_grad = coalesce(tensors, kept=1)
    make = kernels.make if output.shape[-1] <= long_rows.LONGEST else long_rows_backward.make_softmax
    make(output.ndim)(grad, output, input_grad)


def setup_context(ctx, inputs, output):
    *tensors, ctx.dim, _ = inputs
    ctx.save_for_backward(*tensors)


def backward(ctx, grad_of_grad):
    grad, output = ctx.saved_tensors
    to_grad, to_output, *_ = ctx.needs_input_grad
    grad_of_grad = grad_of_grad.to(output.dtype)

    return (
        operator(grad_of_grad, output, ctx.dim, output.dtype) if to_grad else None,
        _gradient_of_output(grad_of_grad, grad, output, ctx.dim) if to_output else None,
        None,
        None,
    )


def _gradient_of_output(grad_of_grad, grad, output, dim):
    def total(tensor):
        return tensor.sum(dim, keepdim=True)

    return grad_of_grad * (grad - total(grad * output)) - grad * total(grad_of_grad * output)


operator = register(
    "ninetoothed::softmax_backward(Tensor grad, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
)

"""The gradients of `layer_norm` for its input, its weight and its bias.

`layer_norm_backward(Tensor grad, Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps,
bool[3] output_mask) -> (Tensor, Tensor, Tensor)`. What `output_mask` leaves out is one element of no meaning (calls
that give empty tensors are not replayed).
"""

import torch

from ..kernels import layer_norm_backward as kernels, layer_norm_weight_backward, long_rows, long_rows_backward
from ..registration import register
from .checks import FLOATS, alike
from .layout import coalesce
from .rms_norm_backward import empty_rows, rows_of_group, sum_rows, unread_weight


def allocate(grad, input, normalized_shape, weight, bias, eps, output_mask):
    shape = tuple(normalized_shape)
    fits = 0 < len(shape) <= input.ndim and input.shape[-len(shape) :] == shape
    fits = fits and alike(input, grad) and grad.shape == input.shape
    for vector, is_needed in zip((weight, bias), output_mask[1:]):
        if vector is None:
            fits = fits and not is_needed
        else:
            fits = fits and vector.shape == shape and vector.dtype in FLOATS and vector.device == input.device
    if not fits:
        raise RuntimeError(
            f"ninetoothed::layer_norm_backward expects a grad like the input, {list(input.shape)} {input.dtype}, and "
            f"a weight and a bias of {list(shape)}, whose gradients are asked for only where they are given"
        )

    return tuple(
        torch.empty_like(each, memory_format=torch.contiguous_format) if is_needed else input.new_empty(1)
        for each, is_needed in zip((input, weight, bias), output_mask)
    )


def launch(outputs, grad, input, normalized_shape, weight, bias, eps, output_mask):
    input_grad, *vector_grads = outputs
    to_input, *to_vectors = output_mask
    weighted = weight is not None
    # What the mask leaves out is not written, and what is None is not read: any tensor of the shape will do.
    tensors = [grad, input, input_grad if to_input else grad]
    if len(normalized_shape) > 1:
        tensors = [tensor.flatten(-len(normalized_shape)) for tensor in tensors]
        weight = weight.flatten() if weighted else None
    grad, input, input_grad = coalesce(tensors, kept=1)
    weight = weight if weighted else unread_weight(input_grad)
    wanted = [each.flatten() if is_needed else None for each, is_needed in zip(vector_grads, to_vectors)]

    is_long = input.shape[-1] > long_rows.LONGEST
    if any(to_vectors) and not is_long:
        _with_vectors(grad, input, weight, eps, input_grad, wanted, weighted, to_input)
        return
    if to_input:
        make = long_rows_backward.make_layer_norm if is_long else kernels.make
        make(input.ndim)(grad, input, weight, eps, input_grad, weighted)
    if any(to_vectors):
        _vectors_of_long_rows(grad, input, eps, wanted)


def _with_vectors(grad, input, weight, eps, input_grad, wanted, weighted, to_input):
    rows = input.shape[:-1].numel()
    group = rows_of_group(rows)
    sums = [empty_rows(-(-rows // group), input) for _ in wanted]
    kernel = layer_norm_weight_backward.make(input.ndim, group)
    kernel(grad, input, weight, eps, input_grad, *sums, weighted, to_input)
    for each, total in zip(sums, wanted):
        if total is not None:
            sum_rows(each, total)


def _vectors_of_long_rows(grad, input, eps, wanted):
    wide = torch.promote_types(input.dtype, torch.float32)
    normalized = torch.empty(input.shape, dtype=wide, device=input.device)
    unread = unread_weight(normalized)
    long_rows.make_layer_norm(input.ndim)(input, unread, unread, eps, normalized, False, False)
    for total, terms in zip(wanted, (grad * normalized, grad.to(wide))):
        if total is not None:
            total.copy_(terms.flatten(end_dim=-2).sum(0))


def setup_context(ctx, inputs, output):
    grad, input, normalized_shape, weight, bias, ctx.eps, ctx.output_mask = inputs
    ctx.dims, ctx.bias_dtype = tuple(range(-len(normalized_shape), 0)), None if bias is None else bias.dtype
    ctx.save_for_backward(grad, input, weight)


def backward(ctx, *grads):
    """Differentiate the formula in PyTorch's own operations: they have gradients of every order."""
    tensors = [each for each in ctx.saved_tensors if each is not None]
    needed = [each for each, is_needed in zip(grads, ctx.output_mask) if is_needed]
    pull_back = torch.func.vjp(lambda *tensors: _written_out(ctx, *tensors), *tensors)[1]
    to_grad, to_input, *to_weight = pull_back(needed)

    return to_grad, to_input, None, *(to_weight or [None]), None, None, None


def _written_out(ctx, grad, input, weight=None):
    wide = torch.promote_types(input.dtype, torch.float32)
    centred = input.to(wide) - input.to(wide).mean(ctx.dims, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(ctx.dims, keepdim=True) + ctx.eps)
    normalized, slope = centred * scale, grad.to(wide) * (1 if weight is None else weight)
    along = normalized * (slope * normalized).mean(ctx.dims, keepdim=True)
    shape = input.shape[ctx.dims[0] :]
    to_input, to_weight, to_bias = ctx.output_mask
    found = [(scale * (slope - slope.mean(ctx.dims, keepdim=True) - along)).to(input.dtype)] if to_input else []
    if to_weight:
        found.append((grad * normalized).sum_to_size(shape).to(weight.dtype))
    if to_bias:
        found.append(grad.to(wide).sum_to_size(shape).to(ctx.bias_dtype))

    return found


operator = register(
    "ninetoothed::layer_norm_backward(Tensor grad, Tensor input, SymInt[] normalized_shape, Tensor? weight, "
    "Tensor? bias, float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
)

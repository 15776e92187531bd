"""`layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05)`.

As `torch.nn.functional.layer_norm`. And `layer_norm_backward`, its gradients for input, weight and bias.
"""

from collections.abc import Sequence

import torch
from torch.nn import functional

from ..kernels import layer_norm as kernels, layer_norm_backward as gradient_kernels, long_rows
from ..nested import by_values
from ..registration import of_file
from . import readers
from .checks import FLOATS, alike, refuse
from .rows import as_rows, empty_where, fit, pull_back, sum_up, sums_of_groups, unread, wide


def allocate(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape = tuple(normalized_shape)
    if not fit(input, shape, weight, bias) or input.dtype not in FLOATS:
        refuse("layer_norm", functional.layer_norm, input, shape, weight, bias, eps)

    return torch.empty_like(input, memory_format=torch.contiguous_format)


def launch(output, input, normalized_shape, weight=None, bias=None, eps=1e-5):
    flags = weight is not None, bias is not None
    (input, output), (weight, bias) = as_rows(len(normalized_shape), (input, output), weight, bias)
    make = kernels.make if output.shape[-1] <= long_rows.LONGEST else long_rows.make_layer_norm
    make(output.ndim)(input, weight, bias, eps, output, *flags)


def backward(ctx, grad):
    to_input, _, *to_vectors, _ = ctx.needs_input_grad
    (input, *vectors), (normalized_shape, eps), mask = ctx.saved_tensors, ctx.options, (to_input, *to_vectors)
    found = gradients(grad, input, normalized_shape, *vectors, eps, mask)
    input_grad, *vector_grads = (each if is_needed else None for each, is_needed in zip(found, mask))

    return input_grad, None, *vector_grads, None


def allocate_gradients(grad, input, normalized_shape, weight, bias, eps, output_mask):
    shape, vectors = tuple(normalized_shape), (weight, bias)
    are_given = all(vector is not None or not is_needed for vector, is_needed in zip(vectors, output_mask[1:]))
    if not (are_given and fit(input, shape, *vectors) and alike(input, grad) and grad.shape == input.shape):
        raise RuntimeError(
            f"ninetoothed::layer_norm_backward expects a grad like the input, {list(input.shape)} {input.dtype}, and "
            f"a weight and a bias of {list(shape)}, whose gradients are asked for only where they are given"
        )

    return empty_where(output_mask, input, *vectors)


def launch_gradients(outputs, grad, input, normalized_shape, weight, bias, eps, output_mask):
    (input_grad, *vector_grads), (to_input, *to_vectors) = outputs, output_mask
    # What the mask leaves out is not written, and what is None is not read: any tensor of the shape will do.
    weighted, tensors = weight is not None, (grad, input, input_grad if to_input else grad)
    (grad, input, input_grad), (weight,) = as_rows(len(normalized_shape), tensors, weight)
    wanted = [each.flatten() if is_needed else None for each, is_needed in zip(vector_grads, to_vectors)]
    is_long = input.shape[-1] > long_rows.LONGEST

    if any(to_vectors) and not is_long:
        group, sums = sums_of_groups(input, 2)
        kernel = gradient_kernels.make_of_groups(input.ndim, group)
        kernel(grad, input, weight, eps, input_grad, *sums, weighted, to_input)
        for each, total in zip(sums, wanted):
            if total is not None:
                sum_up(each, total)
        return
    if to_input:
        make = long_rows.make_layer_norm_backward if is_long else gradient_kernels.make
        make(input.ndim)(grad, input, weight, eps, input_grad, weighted)
    if any(to_vectors):
        _vectors_of_long_rows(grad, input, eps, wanted)


def _vectors_of_long_rows(grad, input, eps, wanted):
    normalized = torch.empty(input.shape, dtype=wide(input), device=input.device)
    vectors = unread(normalized), unread(normalized)
    long_rows.make_layer_norm(input.ndim)(input, *vectors, eps, normalized, False, False)
    for total, terms in zip(wanted, (grad * normalized, grad.to(wide(input)))):
        if total is not None:
            total.copy_(terms.flatten(end_dim=-2).sum(0))


def setup_context_gradients(ctx, inputs, output):
    grad, input, normalized_shape, weight, bias, ctx.eps, ctx.output_mask = inputs
    ctx.dims, ctx.bias_dtype = tuple(range(-len(normalized_shape), 0)), None if bias is None else bias.dtype
    ctx.save_for_backward(grad, input, weight)


def backward_gradients(ctx, *grads):
    to_grad, to_input, to_weight = pull_back(_written_out, ctx, grads)

    return to_grad, to_input, None, to_weight, None, None, None


def _written_out(ctx, grad, input, weight=None):
    grad_of_row, row = grad.to(wide(input)), input.to(wide(input))
    centred = row - row.mean(ctx.dims, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(ctx.dims, keepdim=True) + ctx.eps)
    normalized, slope = centred * scale, grad_of_row * (1 if weight is None else weight)
    along = normalized * (slope * normalized).mean(ctx.dims, keepdim=True)
    shape = input.shape[ctx.dims[0] :]
    to_input, to_weight, to_bias = ctx.output_mask
    found = [(scale * (slope - slope.mean(ctx.dims, keepdim=True) - along)).to(input.dtype)] if to_input else []
    if to_weight:
        found.append((grad * normalized).sum_to_size(shape).to(weight.dtype))
    if to_bias:
        found.append(grad_of_row.sum_to_size(shape).to(ctx.bias_dtype))

    return found


operator = of_file(
    "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
    "float eps=1e-05) -> Tensor",
    globals(),
    autocast={"cuda": torch.float32}.get,
    nested=by_values("layer_norm", functional.layer_norm, lambda input, shape, *_: len(shape)),
)
gradients = of_file(
    "layer_norm_backward(Tensor grad, Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, "
    "float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    globals(),
    "_gradients",
)


@readers.by_annotations()
def layer_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """`(input - mean) / sqrt(variance + eps) * weight + bias` over the last dimensions, of shape `normalized_shape`.

    The arguments and errors are those of `torch.nn.functional.layer_norm`; a weight or a bias may have another floating
    type than the input, which the result has.
    """
    are_tensors = type(weight) in readers.PLAIN_OR_NONE and type(bias) in readers.PLAIN_OR_NONE
    is_plain = type(input) in readers.PLAIN and are_tensors and type(eps) is float
    if not (is_plain and readers.are_integers(normalized_shape)):
        args = input, normalized_shape, weight, bias, eps
        return readers.call(operator, "layer_norm", functional.layer_norm, *args)

    return operator(input, normalized_shape, weight, bias, eps)

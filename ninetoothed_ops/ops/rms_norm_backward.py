"""The gradients of `rms_norm` for its input and its weight.

`rms_norm_backward(Tensor grad, Tensor input, SymInt[] normalized_shape, Tensor? weight, float? eps,
bool[2] output_mask, Tensor? addend=None, bool unit_offset=False) -> (Tensor, Tensor)`. What `output_mask` leaves out is
one element of no meaning (calls that give empty tensors are not replayed); `addend` is added to the first.
"""

import torch

from ..kernels import column_sums, long_rows, long_rows_backward, rms_norm_backward as kernels, rms_norm_weight_backward
from ..registration import register
from .checks import FLOATS, alike
from .layout import coalesce

# The weight's gradient is summed up in groups of rows: enough of them for a GPU, and so short that little is lost by
# adding one row after another.
GROUPS, LONGEST_GROUP = 256, 16


def allocate(grad, input, normalized_shape, weight, eps, output_mask, addend=None, unit_offset=False):
    shape = tuple(normalized_shape)
    others = [grad] if addend is None else [grad, addend]
    fits = 0 < len(shape) <= input.ndim and input.shape[-len(shape) :] == shape
    fits = fits and alike(input, *others) and all(other.shape == input.shape for other in others)
    if weight is not None:
        fits = fits and weight.shape == shape and weight.dtype in FLOATS and weight.device == input.device
    if not fits or (weight is None and output_mask[1]):
        raise RuntimeError(
            f"ninetoothed::rms_norm_backward expects a grad (and an addend) like the input, {list(input.shape)} "
            f"{input.dtype}, and a weight of {list(shape)}, whose gradient is asked for only where it is given"
        )
    like = [input, weight]

    return tuple(
        torch.empty_like(each, memory_format=torch.contiguous_format) if is_needed else input.new_empty(1)
        for each, is_needed in zip(like, output_mask)
    )


def launch(outputs, grad, input, normalized_shape, weight, eps, output_mask, addend=None, unit_offset=False):
    input_grad, weight_grad = outputs
    added, weighted, eps = addend is not None, weight is not None, eps_or_default(input, eps)
    # What the mask leaves out is not written, and what is None is not read: any tensor of the shape will do.
    tensors = [grad, input, addend if added else grad, input_grad if output_mask[0] else grad]
    if len(normalized_shape) > 1:
        tensors = [tensor.flatten(-len(normalized_shape)) for tensor in tensors]
        weight = weight.flatten() if weighted else None
    grad, input, addend, input_grad = coalesce(tensors, kept=1)
    weight = weight if weighted else unread_weight(input_grad)

    if output_mask[1] and input.shape[-1] <= long_rows.LONGEST:
        flags = output_mask[0], added
        _with_weight(grad, input, weight, eps, addend, input_grad, weight_grad.flatten(), flags, unit_offset)
        return
    if output_mask[0]:
        make = kernels.make if input.shape[-1] <= long_rows.LONGEST else long_rows_backward.make_rms_norm
        make(input.ndim, unit_offset)(grad, input, weight, eps, addend, input_grad, weighted, added)
    if output_mask[1]:
        _weight_of_long_rows(grad, input, eps, weight_grad.flatten())


def _with_weight(grad, input, weight, eps, addend, input_grad, weight_grad, flags, unit_offset):
    rows = input.shape[:-1].numel()
    group = rows_of_group(rows)
    partial_grad = empty_rows(-(-rows // group), input)
    kernel = rms_norm_weight_backward.make(input.ndim, group, unit_offset)
    kernel(grad, input, weight, eps, addend, input_grad, partial_grad, *flags)
    sum_rows(partial_grad, weight_grad)


def rows_of_group(rows):
    """Choose how many rows a program adds up, one after another."""
    group = 1
    while group * GROUPS < rows and group < LONGEST_GROUP:
        group *= 2
    return group


def sum_rows(rows, total):
    """Sum up rows, as a tree."""
    if rows.shape[0] == 0:
        total.zero_()
        return
    while rows.shape[0] > column_sums.ROWS:
        sums = empty_rows(-(-rows.shape[0] // column_sums.ROWS), rows)
        column_sums.make()(rows, sums)
        rows = sums
    column_sums.make()(rows, total.unsqueeze(0))


def empty_rows(count, input):
    """Allocate rows like those of the input, in the type in which they are computed."""
    return torch.empty(
        (count, input.shape[-1]), dtype=torch.promote_types(input.dtype, torch.float32), device=input.device
    )


def _weight_of_long_rows(grad, input, eps, weight_grad):
    wide = torch.promote_types(input.dtype, torch.float32)
    normalized = torch.empty(input.shape, dtype=wide, device=input.device)
    long_rows.make_rms_norm(input.ndim)(input, unread_weight(normalized), eps, normalized, False)
    weight_grad.copy_((grad * normalized).flatten(end_dim=-2).sum(0))


def eps_or_default(input: torch.Tensor, eps: float | None) -> float:
    """Return `eps`, or that of the type in which rows are computed where it is None."""
    return torch.finfo(torch.float64 if input.dtype is torch.float64 else torch.float32).eps if eps is None else eps


def unread_weight(output: torch.Tensor) -> torch.Tensor:
    """Make a weight for a kernel that does not read it: any vector of the row's length will do."""
    return output[(0,) * (output.ndim - 1)] if output.numel() else output.new_empty(output.shape[-1])


def setup_context(ctx, inputs, output):
    grad, input, normalized_shape, weight, eps, ctx.output_mask, _, ctx.unit_offset = inputs
    ctx.dims, ctx.eps = tuple(range(-len(normalized_shape), 0)), eps_or_default(input, eps)
    ctx.save_for_backward(grad, input, weight)


def backward(ctx, *grads):
    """Differentiate the formula in PyTorch's own operations: they have gradients of every order."""
    tensors = [each for each in ctx.saved_tensors if each is not None]
    needed = [each for each, is_needed in zip(grads, ctx.output_mask) if is_needed]
    pull_back = torch.func.vjp(lambda *tensors: _written_out(ctx, *tensors), *tensors)[1]
    to_grad, to_input, *to_weight = pull_back(needed)

    to_addend = grads[0] if ctx.needs_input_grad[6] else None
    return to_grad, to_input, None, *(to_weight or [None]), None, None, to_addend, None


def _written_out(ctx, grad, input, weight=None):
    wide = torch.promote_types(input.dtype, torch.float32)
    scale = torch.rsqrt(input.to(wide).square().mean(ctx.dims, keepdim=True) + ctx.eps)
    factor = 1 if weight is None else weight.to(wide) + 1 if ctx.unit_offset else weight
    normalized, slope = input * scale, grad.to(wide) * factor
    input_grad = scale * (slope - normalized * (slope * normalized).mean(ctx.dims, keepdim=True))
    found = [input_grad.to(input.dtype)] if ctx.output_mask[0] else []
    if ctx.output_mask[1]:
        found.append((grad * normalized).sum_to_size(weight.shape).to(weight.dtype))

    return found


operator = register(
    "ninetoothed::rms_norm_backward(Tensor grad, Tensor input, SymInt[] normalized_shape, Tensor? weight, float? eps, "
    "bool[2] output_mask, Tensor? addend=None, bool unit_offset=False) -> (Tensor, Tensor)",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
)

"""`rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None, bool unit_offset=False)`.

As `torch.nn.functional.rms_norm`; with a unit offset, the factor is `1 + weight`. And `rms_norm_backward`, its
gradients for input and weight; `addend` is added to the first.
"""

from collections.abc import Sequence

import torch
from torch.nn import functional

from ninetoothed.runtime import private

from ..kernels import long_rows, rms_norm as kernels, rms_norm_backward as gradient_kernels
from ..nested import by_values
from ..registration import of_file
from . import readers
from .checks import FLOATS, alike, refuse
from .layout import is_channels_last
from .rows import as_rows, empty_where, eps_or_default, fit, pull_back, sum_up, sums_of_groups, unread, wide


def namesake(input, normalized_shape, weight=None, eps=None, unit_offset=False):
    weight = weight + 1 if unit_offset and weight is not None else weight

    return functional.rms_norm(input, tuple(normalized_shape), weight, eps)


def allocate(input, normalized_shape, weight=None, eps=None, unit_offset=False):
    shape = tuple(normalized_shape)
    if not fit(input, shape, weight) or input.dtype not in FLOATS:
        refuse("rms_norm", functional.rms_norm, input, shape, weight, eps)

    is_last = is_channels_last(input)
    return torch.empty_like(input, memory_format=torch.channels_last if is_last else torch.contiguous_format)


def launch(output, input, normalized_shape, weight=None, eps=None, unit_offset=False):
    if len(normalized_shape) > 1 and not output.is_contiguous():
        # What is one row is no view of it then.
        rows = torch.empty_like(output, memory_format=torch.contiguous_format)
        launch(rows, input, normalized_shape, weight, eps, unit_offset)
        output.copy_(rows)
        return

    eps, weighted = eps_or_default(input, eps), weight is not None
    (input, output), (weight,) = as_rows(len(normalized_shape), (input, output), weight)
    make = kernels.make if output.shape[-1] <= long_rows.LONGEST else long_rows.make_rms_norm
    make(output.ndim, unit_offset)(input, weight, eps, output, weighted)


def backward(ctx, grad):
    (input, weight), (normalized_shape, eps, unit_offset) = ctx.saved_tensors, ctx.options
    to_input, _, to_weight, *_ = ctx.needs_input_grad
    mask = to_input, to_weight
    input_grad, weight_grad = gradients(grad, input, normalized_shape, weight, eps, mask, None, unit_offset)

    return input_grad if to_input else None, None, weight_grad if to_weight else None, None, None


def autocast(device_type):
    """Cast to float32 where PyTorch's `rms_norm` is."""
    return torch.float32 if private.casts_rms_norm(device_type) else None


def allocate_gradients(grad, input, normalized_shape, weight, eps, output_mask, addend=None, unit_offset=False):
    shape = tuple(normalized_shape)
    others = [grad] if addend is None else [grad, addend]
    are_alike = alike(input, *others) and all(other.shape == input.shape for other in others)
    if not (fit(input, shape, weight) and are_alike) or (weight is None and output_mask[1]):
        raise RuntimeError(
            f"ninetoothed::rms_norm_backward expects a grad (and an addend) like the input, {list(input.shape)} "
            f"{input.dtype}, and a weight of {list(shape)}, whose gradient is asked for only where it is given"
        )

    return empty_where(output_mask, input, weight)


def launch_gradients(outputs, grad, input, normalized_shape, weight, eps, output_mask, addend=None, unit_offset=False):
    (input_grad, weight_grad), (to_input, to_weight) = outputs, output_mask
    added, weighted, eps = addend is not None, weight is not None, eps_or_default(input, eps)
    # What the mask leaves out is not written, and what is None is not read: any tensor of the shape will do.
    tensors = grad, input, addend if added else grad, input_grad if to_input else grad
    (grad, input, addend, input_grad), (weight,) = as_rows(len(normalized_shape), tensors, weight)
    weight_grad, is_long = weight_grad.flatten(), input.shape[-1] > long_rows.LONGEST

    if to_weight and not is_long:
        group, (sums,) = sums_of_groups(input, 1)
        kernel = gradient_kernels.make_of_groups(input.ndim, group, unit_offset)
        kernel(grad, input, weight, eps, addend, input_grad, sums, to_input, added)
        sum_up(sums, weight_grad)
        return
    if to_input:
        make = long_rows.make_rms_norm_backward if is_long else gradient_kernels.make
        make(input.ndim, unit_offset)(grad, input, weight, eps, addend, input_grad, weighted, added)
    if to_weight:
        normalized = torch.empty(input.shape, dtype=wide(input), device=input.device)
        long_rows.make_rms_norm(input.ndim)(input, unread(normalized), eps, normalized, False)
        weight_grad.copy_((grad * normalized).flatten(end_dim=-2).sum(0))


def setup_context_gradients(ctx, inputs, output):
    grad, input, normalized_shape, weight, eps, ctx.output_mask, _, ctx.unit_offset = inputs
    ctx.dims, ctx.eps = tuple(range(-len(normalized_shape), 0)), eps_or_default(input, eps)
    ctx.save_for_backward(grad, input, weight)


def backward_gradients(ctx, *grads):
    to_grad, to_input, to_weight = pull_back(_written_out, ctx, grads)

    return to_grad, to_input, None, to_weight, None, None, grads[0] if ctx.needs_input_grad[6] else None, None


def _written_out(ctx, grad, input, weight=None):
    scale = torch.rsqrt(input.to(wide(input)).square().mean(ctx.dims, keepdim=True) + ctx.eps)
    factor = 1 if weight is None else weight.to(wide(input)) + 1 if ctx.unit_offset else weight
    normalized, slope = input * scale, grad.to(wide(input)) * factor
    input_grad = scale * (slope - normalized * (slope * normalized).mean(ctx.dims, keepdim=True))
    found = [input_grad.to(input.dtype)] if ctx.output_mask[0] else []
    if ctx.output_mask[1]:
        found.append((grad * normalized).sum_to_size(weight.shape).to(weight.dtype))

    return found


operator = of_file(
    "rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None, "
    "bool unit_offset=False) -> Tensor",
    globals(),
    nested=by_values("rms_norm", namesake, lambda input, shape, *_: len(shape)),
)
gradients = of_file(
    "rms_norm_backward(Tensor grad, Tensor input, SymInt[] normalized_shape, Tensor? weight, float? eps, "
    "bool[2] output_mask, Tensor? addend=None, bool unit_offset=False) -> (Tensor, Tensor)",
    globals(),
    "_gradients",
    autocast=None,
)


@readers.by_annotations()
def rms_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
    *,
    unit_offset: bool = False,
) -> torch.Tensor:
    """`input / sqrt(mean(input^2) + eps) * weight` over the last dimensions, which have `normalized_shape`.

    `eps` is that of float32 (of float64 for float64) where None. With `unit_offset` the factor is `1 + weight`, as
    Gemma has it, added in float32 for halves; without a weight there is no factor, and it has no effect. The other
    arguments and errors are those of `torch.nn.functional.rms_norm`.
    """
    are_tensors = type(input) in readers.PLAIN and type(weight) in readers.PLAIN_OR_NONE
    if not (are_tensors and readers.are_integers(normalized_shape) and (eps is None or type(eps) is float)):
        if unit_offset is False and readers.are_overridden(input, weight, takes_nested=True):
            return functional.rms_norm(input, normalized_shape, weight, eps)
        read = readers.read("rms_norm", functional.rms_norm, input, normalized_shape, weight, eps)
        input, normalized_shape, weight, eps = read
    if type(unit_offset) is not bool:
        (unit_offset,) = readers.read("rms_norm", None, unit_offset=unit_offset)

    return operator(input, normalized_shape, weight, eps, unit_offset)

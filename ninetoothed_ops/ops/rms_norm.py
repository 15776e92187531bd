"""`rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None, bool unit_offset=False)`.

As `torch.nn.functional.rms_norm`; with a unit offset, the factor is `1 + weight`.
"""

from collections.abc import Sequence

import torch
from torch.nn import functional

from ninetoothed.runtime import private

from ..kernels import long_rows, rms_norm as kernels
from ..registration import register
from . import readers, rms_norm_backward
from .checks import FLOATS, refuse
from .layout import coalesce, is_channels_last
from .rms_norm_backward import eps_or_default, unread_weight


def allocate(input, normalized_shape, weight=None, eps=None, unit_offset=False):
    shape = tuple(normalized_shape)
    fits = 0 < len(shape) <= input.ndim and input.shape[-len(shape) :] == shape
    if fits and weight is not None:
        fits = weight.shape == shape and weight.dtype in FLOATS and weight.device == input.device
    if not fits or input.dtype not in FLOATS:
        refuse("rms_norm", functional.rms_norm, input, shape, weight, eps)

    if is_channels_last(input):
        return torch.empty_like(input, memory_format=torch.channels_last)
    return torch.empty_like(input, memory_format=torch.contiguous_format)


def launch(output, input, normalized_shape, weight=None, eps=None, unit_offset=False):
    eps = eps_or_default(input, eps)
    if len(normalized_shape) > 1 and not output.is_contiguous():
        # What is one row is no view of it then.
        rows = torch.empty_like(output, memory_format=torch.contiguous_format)
        launch(rows, input, normalized_shape, weight, eps, unit_offset)
        output.copy_(rows)
        return
    if len(normalized_shape) > 1:
        input, output = (tensor.flatten(-len(normalized_shape)) for tensor in (input, output))
        weight = None if weight is None else weight.flatten()

    input, output = coalesce((input, output), kept=1)
    weighted = weight is not None
    weight = weight if weighted else unread_weight(output)
    make = kernels.make if output.shape[-1] <= long_rows.LONGEST else long_rows.make_rms_norm
    make(output.ndim, unit_offset)(input, weight, eps, output, weighted)


def setup_context(ctx, inputs, output):
    input, ctx.normalized_shape, weight, ctx.eps, ctx.unit_offset = inputs
    ctx.save_for_backward(input, weight)


def backward(ctx, grad):
    input, weight = ctx.saved_tensors
    to_input, _, to_weight, *_ = ctx.needs_input_grad
    input_grad, weight_grad = rms_norm_backward.operator(
        grad, input, ctx.normalized_shape, weight, ctx.eps, (to_input, to_weight), None, ctx.unit_offset
    )

    return input_grad if to_input else None, None, weight_grad if to_weight else None, None, None


def autocast(device_type):
    """Cast to float32 where PyTorch's `rms_norm` is."""
    return torch.float32 if private.casts_rms_norm(device_type) else None


operator = register(
    "ninetoothed::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None, "
    "bool unit_offset=False) -> Tensor",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
    autocast=autocast,
)

_READERS = {
    "input": readers.tensor,
    "normalized_shape": readers.integers,
    "weight": readers.optional(readers.tensor),
    "eps": readers.optional(readers.real),
}
_OPTIONS = {"unit_offset": readers.flag}


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
        if unit_offset is False and readers.are_overridden(input, weight):
            return functional.rms_norm(input, normalized_shape, weight, eps)
        read = readers.read("rms_norm", functional.rms_norm, _READERS, input, normalized_shape, weight, eps)
        input, normalized_shape, weight, eps = read
    if type(unit_offset) is not bool:
        (unit_offset,) = readers.read("rms_norm", None, _OPTIONS, unit_offset)

    return operator(input, normalized_shape, weight, eps, unit_offset)

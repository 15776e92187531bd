"""`add_rms_norm(Tensor input, Tensor residual, Tensor? weight=None, float? eps=None) -> (Tensor, Tensor)`.

As `torch.nn.functional.rms_norm` of the last dimension of `input + residual`, and that sum.
"""

import torch
from torch.nn import functional

from ..kernels import add, add_rms_norm as kernels, long_rows
from ..registration import register
from . import readers, rms_norm_backward
from .checks import FLOATS, alike, refuse
from .layout import coalesce
from .rms_norm_backward import eps_or_default, unread_weight


def namesake(input, residual, weight=None, eps=None):
    total = input + residual

    return functional.rms_norm(total, total.shape[-1:], weight, eps), total


def allocate(input, residual, weight=None, eps=None):
    fits = input.ndim > 0 and input.shape == residual.shape and alike(input, residual)
    if fits and weight is not None:
        fits = weight.shape == input.shape[-1:] and weight.dtype in FLOATS and weight.device == input.device
    if not fits:
        refuse("add_rms_norm", namesake, input, residual, weight, eps)

    return tuple(torch.empty_like(input, memory_format=torch.contiguous_format) for _ in range(2))


def launch(outputs, input, residual, weight=None, eps=None):
    input, residual, output, total = coalesce((input, residual, *outputs), kept=1)
    eps, weighted = eps_or_default(input, eps), weight is not None
    weight = weight if weighted else unread_weight(output)
    if output.shape[-1] <= long_rows.LONGEST:
        kernels.make(output.ndim)(input, residual, total, weight, eps, output, weighted)
    else:
        add.make(output.ndim)(input, residual, 1, total)
        long_rows.make_rms_norm(output.ndim)(total, weight, eps, output, weighted)


def setup_context(ctx, inputs, output):
    *_, weight, ctx.eps = inputs
    ctx.save_for_backward(output[1], weight)
    ctx.set_materialize_grads(False)


def backward(ctx, grad, total_grad):
    total, weight = ctx.saved_tensors
    to_input, to_residual, to_weight, _ = ctx.needs_input_grad
    weight_grad = None
    if grad is not None:
        mask = to_input or to_residual, to_weight
        # The gradient of the sum is added on the way.
        total_grad, weight_grad = rms_norm_backward.operator(
            grad, total, total.shape[-1:], weight, ctx.eps, mask, total_grad if mask[0] else None
        )

    return (
        total_grad if to_input else None,
        total_grad if to_residual else None,
        weight_grad if to_weight else None,
        None,
    )


operator = register(
    "ninetoothed::add_rms_norm(Tensor input, Tensor residual, Tensor? weight=None, float? eps=None)"
    " -> (Tensor, Tensor)",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
)

_READERS = {
    "input": readers.tensor,
    "residual": readers.tensor,
    "weight": readers.optional(readers.tensor),
    "eps": readers.optional(readers.real),
}


def add_rms_norm(
    input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None = None, eps: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """`(rms_norm(sum, weight, eps), sum)` of `sum = input + residual`, over the last dimension.

    Both are `(..., columns)` of one type, and `weight` is `(columns,)`. The norm is of the sum as it is returned: so
    both are those of two operators one after another. `eps` is that of float32 (of float64 for float64) where None.
    """
    are_two = type(input) in readers.PLAIN and type(residual) in readers.PLAIN
    if not (are_two and type(weight) in readers.PLAIN_OR_NONE and (eps is None or type(eps) is float)):
        if readers.are_overridden(input, residual, weight):
            return namesake(input, residual, weight, eps)
        read = readers.read("add_rms_norm", namesake, _READERS, input, residual, weight, eps)
        input, residual, weight, eps = read

    return operator(input, residual, weight, eps)

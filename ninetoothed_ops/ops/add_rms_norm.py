"""`add_rms_norm(Tensor input, Tensor residual, Tensor? weight=None, float? eps=None) -> (Tensor, Tensor)`.

As `torch.nn.functional.rms_norm` of the last dimension of `input + residual`, and that sum.
"""

import torch
from torch.nn import functional

from ..kernels import add, add_rms_norm as kernels, long_rows
from ..nested import by_values
from ..registration import of_file
from . import readers
from .checks import alike, refuse
from .rms_norm import gradients
from .rows import as_rows, empty_where, eps_or_default, fit


def namesake(input, residual, weight=None, eps=None):
    total = input + residual

    return functional.rms_norm(total, total.shape[-1:], weight, eps), total


def allocate(input, residual, weight=None, eps=None):
    fits = input.ndim > 0 and input.shape == residual.shape and alike(input, residual)
    if not (fits and fit(input, input.shape[-1:], weight)):
        refuse("add_rms_norm", namesake, input, residual, weight, eps)

    return empty_where((True, True), input, input)


def launch(outputs, input, residual, weight=None, eps=None):
    eps, weighted = eps_or_default(input, eps), weight is not None
    (input, residual, output, total), (weight,) = as_rows(1, (input, residual, *outputs), weight)
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
        addend = total_grad if mask[0] else None
        total_grad, weight_grad = gradients(grad, total, total.shape[-1:], weight, ctx.eps, mask, addend)

    return (
        *(total_grad if is_needed else None for is_needed in (to_input, to_residual)),
        weight_grad if to_weight else None,
        None,
    )


operator = of_file(
    "add_rms_norm(Tensor input, Tensor residual, Tensor? weight=None, float? eps=None) -> (Tensor, Tensor)",
    globals(),
    nested=by_values("add_rms_norm", namesake, whole=1),
)


@readers.by_annotations()
def add_rms_norm(
    input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None = None, eps: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """`(rms_norm(sum, weight, eps), sum)` of `sum = input + residual`, over the last dimension.

    Both are `(..., columns)` of one type, and `weight` is `(columns,)`. The norm is of the sum as it is returned: so
    both are those of two operators one after another. `eps` is that of float32 (of float64 for float64) where None.
    """
    are_two = type(input) in readers.PLAIN and type(residual) in readers.PLAIN
    if not (are_two and type(weight) in readers.PLAIN_OR_NONE and (eps is None or type(eps) is float)):
        return readers.call(operator, "add_rms_norm", namesake, input, residual, weight, eps)

    return operator(input, residual, weight, eps)

"""input_grad[i] = scale * (slope[i] - mean of slope[j] - normalized[i] * mean of slope[j] * normalized[j]), by rows.

Here scale and normalized are what `layer_norm` multiplies a row by and what that gives, slope[i] = grad[i] * weight[i],
and means are over j.

`layer_norm_backward`, and the sums of grad[row, i] * normalized[row, i] and of grad[row, i] over each group of rows.

The sums of the groups are the gradients of the weight and of the bias: `column_sums`. All add in one order: no result
depends on chance.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

from .groups_of_rows import arrangement, is_within
from .layer_norm import centred_and_scale
from .numeric import widen
from .parameters import flags


def through_norm(slope, normalized, scale):
    """Take the gradient of a normalized row to the row."""
    columns = normalized.shape[0]

    return scale * (slope - ntl.sum(slope) / columns - normalized * (ntl.sum(slope * normalized) / columns))


def application(grad, input, weight, eps, input_grad, weighted):
    # All is loaded before the first sum, for which threads wait.
    slope = widen(grad) * widen(weight) if weighted else widen(grad)
    centred, scale = centred_and_scale(widen(input), eps)

    input_grad = through_norm(slope, centred * scale, scale)


def parameters(ndim):
    return Tensor(ndim), Tensor(ndim), Tensor(1), Tensor(0), Tensor(ndim), *flags(1)


@functools.cache
def make(ndim=2):
    """The kernel `(grad, input, weight, eps, input_grad, weighted)`, of the shapes of `layer_norm.make`.

    Where `weighted` is false, `weight` is not read.
    """
    return ninetoothed.make(arrange.rows, application, parameters(ndim), kernel_name="layer_norm_backward")


def application_of_groups(grad, input, weight, eps, input_grad, weight_sums, bias_sums, weighted, needed):
    weight_total = ntl.zeros(weight_sums.shape, dtype=weight_sums.dtype)
    bias_total = ntl.zeros(bias_sums.shape, dtype=bias_sums.dtype)
    factor = widen(weight) if weighted else 1.0

    def take_in(i, grad, row, weight_total, bias_total):
        slope = widen(grad)
        centred, scale = centred_and_scale(widen(row), eps)
        scale = ntl.where(is_within(input[i]), scale, 0.0)
        normalized = centred * scale
        weight_total += slope * normalized
        bias_total += slope
        if needed:
            input_grad[i] = through_norm(slope * factor, normalized, scale)

    # A row is loaded before the sums of the one before it, for which threads wait.
    last = input.shape[0] - 1
    slope, row = grad[0], input[0]
    for i in range(last):
        ready = slope, row
        slope, row = grad[i + 1], input[i + 1]
        take_in(i, *ready, weight_total, bias_total)
    take_in(last, slope, row, weight_total, bias_total)

    weight_sums = weight_total
    bias_sums = bias_total


@functools.cache
def make_of_groups(ndim=2, group=1):
    """The kernel `(grad, input, weight, eps, input_grad, weight_sums, bias_sums, weighted, needed)` for groups of rows.

    The sums are (groups, columns), in the type in which rows are computed. Where `needed` is false, the gradient of the
    input is left out; where `weighted` is, `weight` is not read.
    """
    # Rows beyond the last add nothing.
    grad, input, input_grad = (Tensor(ndim, other=0.0) for _ in range(3))
    tensors = (grad, input, Tensor(1), Tensor(0), input_grad, Tensor(2), Tensor(2), *flags(2))
    grouped = functools.partial(arrangement, group=group, sums=(5, 6))

    return ninetoothed.make(grouped, application_of_groups, tensors, kernel_name="layer_norm_weight_backward")

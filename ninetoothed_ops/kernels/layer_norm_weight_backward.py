"""`layer_norm_backward`, and the sums of grad[row, i] * normalized[row, i] and of grad[row, i] over each group of rows.

The sums of the groups are the gradients of the weight and of the bias: `column_sums`. All add in one order: no result
depends on chance.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .layer_norm import centred_and_scale
from .layer_norm_backward import through_norm
from .numeric import widen
from .parameters import flags
from .rms_norm_weight_backward import grouped, is_within
from .rowwise import rows


def arrangement(grad, input, weight, eps, input_grad, weight_sums, bias_sums, weighted, needed, group):
    grad, input, input_grad = (grouped(tensor, group) for tensor in (grad, input, input_grad))
    weight = weight.tile((-1,)).expand((grad.shape[0],))

    return grad, input, weight, eps, input_grad, rows(weight_sums), rows(bias_sums), weighted, needed


def application(grad, input, weight, eps, input_grad, weight_sums, bias_sums, weighted, needed):
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
def make(ndim=2, group=1):
    """The kernel `(grad, input, weight, eps, input_grad, weight_sums, bias_sums, weighted, needed)` for groups of rows.

    The sums are (groups, columns), in the type in which rows are computed. Where `needed` is false, the gradient of the
    input is left out; where `weighted` is, `weight` is not read.
    """
    # Rows beyond the last add nothing.
    grad, input, input_grad = (Tensor(ndim, other=0.0) for _ in range(3))
    tensors = (grad, input, Tensor(1), Tensor(0), input_grad, Tensor(2), Tensor(2), *flags(2))
    arrange = functools.partial(arrangement, group=group)

    return ninetoothed.make(arrange, application, tensors, kernel_name="layer_norm_weight_backward")

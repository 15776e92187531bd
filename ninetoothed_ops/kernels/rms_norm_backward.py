"""input_grad[i] = scale * (slope[i] - input[i] * scale^2 * mean) + addend[i], for each row.

Here scale = 1 / sqrt(mean of input[j]^2 over j + eps), slope[i] = grad[i] * weight[i], or grad[i] * (1 + weight[i])
with a unit offset, and mean is that of slope[j] * input[j] over j.

`rms_norm_backward`, and partial_grad[i] = sum of grad[row, i] * input[row, i] * scale[row] over each group of rows.

The sum of the groups is the gradient of the weight: `column_sums`. Both add in one order: no result depends on chance.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

from .groups_of_rows import arrangement, is_within
from .numeric import factor_of, widen
from .parameters import flags


def scale_of(row, eps):
    return ntl.rsqrt(ntl.sum(row * row) / row.shape[0] + eps)


def through_norm(slope, row, scale):
    """Take the gradient of a row times its scale to the row."""
    return scale * (slope - row * (scale * scale * (ntl.sum(slope * row) / row.shape[0])))


def application(grad, input, weight, eps, addend, input_grad, weighted, added, unit_offset):
    # All is loaded before the first sum, for which threads wait.
    slope = widen(grad) * factor_of(weight, unit_offset) if weighted else widen(grad)
    rest = widen(addend) if added else 0.0
    row = widen(input)
    result = through_norm(slope, row, scale_of(row, eps))

    input_grad = result + rest if added else result


def parameters(ndim, unit_offset):
    grad, input, addend, input_grad = (Tensor(ndim) for _ in range(4))

    return grad, input, Tensor(1), Tensor(0), addend, input_grad, *flags(2, unit_offset)


@functools.cache
def make(ndim=2, unit_offset=False):
    """The kernel `(grad, input, weight, eps, addend, input_grad, weighted, added)`, of the shapes of `rms_norm.make`.

    Where `weighted` or `added` is false, `weight` or `addend` is not read.
    """
    return ninetoothed.make(arrange.rows, application, parameters(ndim, unit_offset), kernel_name="rms_norm_backward")


def application_of_groups(grad, input, weight, eps, addend, input_grad, partial_grad, needed, added, unit_offset):
    total, factor = ntl.zeros(partial_grad.shape, dtype=partial_grad.dtype), factor_of(weight, unit_offset)
    last, has_rest = input.shape[0] - 1, needed and added

    def take_in(i, grad, row, rest, total):
        slope, row = widen(grad), widen(row)
        scale = ntl.where(is_within(input[i]), scale_of(row, eps), 0.0)
        total += slope * (row * scale)
        if needed:
            result = through_norm(slope * factor, row, scale)
            input_grad[i] = result + widen(rest) if added else result

    # A row is loaded before the sums of the one before it, for which threads wait.
    slope, row, rest = grad[0], input[0], addend[0] if has_rest else 0.0
    for i in range(last):
        ready = slope, row, rest
        slope, row, rest = grad[i + 1], input[i + 1], addend[i + 1] if has_rest else 0.0
        take_in(i, *ready, total)
    take_in(last, slope, row, rest, total)

    partial_grad = total


@functools.cache
def make_of_groups(ndim=2, group=1, unit_offset=False):
    """The kernel `(grad, input, weight, eps, addend, input_grad, partial_grad, needed, added)` for groups of rows.

    `partial_grad` is (groups, columns), in the type in which rows are computed. Where `needed` is false, the gradient
    of the input is left out; where `added` is, `addend` is not read.
    """
    # Rows beyond the last add nothing.
    grad, input, addend, input_grad = (Tensor(ndim, other=0.0) for _ in range(4))
    tensors = (grad, input, Tensor(1), Tensor(0), addend, input_grad, Tensor(2), *flags(2, unit_offset))
    grouped = functools.partial(arrangement, group=group, sums=(6,))

    return ninetoothed.make(grouped, application_of_groups, tensors, kernel_name="rms_norm_weight_backward")

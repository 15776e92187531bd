"""`rms_norm_backward`, and partial_grad[i] = sum of grad[row, i] * input[row, i] * scale[row] over each group of rows.

The sum of the groups is the gradient of the weight: `column_sums`. Both add in one order: no result depends on chance.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .numeric import factor_of, widen
from .parameters import flags, squeezed
from .rms_norm_backward import scale_of, through_norm
from .rowwise import rows


def grouped(tensor, group):
    """(..., columns) as sequences of `group` rows."""
    return squeezed(tensor.flatten(end_dim=-1).tile((1, -1)).tile((group, 1)), 1, 0)


def is_within(row):
    """Tell whether a row is one of the tensor's: the scale of one beyond the last is infinite where eps is 0."""
    return row.offsets(0) < row.source.shape[0]


def arrangement(grad, input, weight, eps, addend, input_grad, partial_grad, needed, added, unit_offset, group):
    grad, input, addend, input_grad = (grouped(tensor, group) for tensor in (grad, input, addend, input_grad))
    weight = weight.tile((-1,)).expand((grad.shape[0],))

    return grad, input, weight, eps, addend, input_grad, rows(partial_grad), needed, added, unit_offset


def application(grad, input, weight, eps, addend, input_grad, partial_grad, needed, added, unit_offset):
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
def make(ndim=2, group=1, unit_offset=False):
    """The kernel `(grad, input, weight, eps, addend, input_grad, partial_grad, needed, added)` for groups of rows.

    `partial_grad` is (groups, columns), in the type in which rows are computed. Where `needed` is false, the gradient
    of the input is left out; where `added` is, `addend` is not read.
    """
    # Rows beyond the last add nothing.
    grad, input, addend, input_grad = (Tensor(ndim, other=0.0) for _ in range(4))
    tensors = (grad, input, Tensor(1), Tensor(0), addend, input_grad, Tensor(2), *flags(2, unit_offset))
    arrange = functools.partial(arrangement, group=group)

    return ninetoothed.make(arrange, application, tensors, kernel_name="rms_norm_weight_backward")

"""input_grad[i] = scale * (slope[i] - input[i] * scale^2 * mean) + addend[i], for each row.

Here scale = 1 / sqrt(mean of input[j]^2 over j + eps), slope[i] = grad[i] * weight[i], or grad[i] * (1 + weight[i])
with a unit offset, and mean is that of slope[j] * input[j] over j.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .numeric import factor_of, widen
from .parameters import flags
from .rowwise import arrangement


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
    return ninetoothed.make(arrangement, application, parameters(ndim, unit_offset), kernel_name="rms_norm_backward")

"""input_grad[i] = scale * (slope[i] - n[i] * (mean of slope[j] * n[j] over j)) + addend[i], for each row.

Here scale = 1 / sqrt(mean of input[j]^2 over j + eps), n[i] = input[i] * scale and slope[i] = grad[i] * weight[i].
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .numeric import widen
from .rowwise import rows


def arrangement(grad, input, weight, eps, addend, input_grad, weighted, added):
    grad_arranged = rows(grad)
    weight_arranged = weight.tile((-1,)).expand((grad_arranged.shape[0],))

    return grad_arranged, rows(input), weight_arranged, eps, rows(addend), rows(input_grad), weighted, added


def normalize(input, eps):
    """Normalise one row, and give its scale too."""
    wide = widen(input)
    scale = ntl.rsqrt(ntl.sum(wide * wide) / input.shape[0] + eps)

    return wide * scale, scale


def through_norm(slope, normalized, scale):
    """Take the gradient of a normalised row to the row."""
    return scale * (slope - normalized * (ntl.sum(slope * normalized) / slope.shape[0]))


def application(grad, input, weight, eps, addend, input_grad, weighted, added):
    normalized, scale = normalize(input, eps)
    slope = widen(grad) * widen(weight) if weighted else widen(grad)
    result = through_norm(slope, normalized, scale)

    input_grad = result + widen(addend) if added else result


@functools.cache
def make(ndim=2):
    """The kernel `(grad, input, weight, eps, addend, input_grad, weighted, added)`, of the shapes of `rms_norm.make`.

    Where `weighted` or `added` is false, `weight` or `addend` is not read.
    """
    grad, input, addend, input_grad = (Tensor(ndim) for _ in range(4))
    weighted, added = (Tensor(0, constexpr=True) for _ in range(2))
    tensors = (grad, input, Tensor(1), Tensor(0), addend, input_grad, weighted, added)

    return ninetoothed.make(arrangement, application, tensors, kernel_name="rms_norm_backward")

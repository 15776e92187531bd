"""input_grad[i] = scale * (slope[i] - mean of slope[j] - normalized[i] * mean of slope[j] * normalized[j]), by rows.

Here scale and normalized are what `layer_norm` multiplies a row by and what that gives, slope[i] = grad[i] * weight[i],
and means are over j.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .layer_norm import centred_and_scale
from .numeric import widen
from .parameters import flags
from .rowwise import arrangement


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
    return ninetoothed.make(arrangement, application, parameters(ndim), kernel_name="layer_norm_backward")

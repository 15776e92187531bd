"""output[i] = (input[i] - mean) / sqrt(variance + eps) * weight[i] + bias[i], for each row.

Here mean is that of input[j] over j, and variance is that of (input[j] - mean)^2.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

from .numeric import widen
from .parameters import flags


def centred_and_scale(row, eps):
    """Subtract the mean from a row, and compute the factor that makes its variance 1."""
    centred = row - ntl.sum(row) / row.shape[0]

    return centred, ntl.rsqrt(ntl.sum(centred * centred) / row.shape[0] + eps)


def application(input, weight, bias, eps, output, weighted, biased):
    centred, scale = centred_and_scale(widen(input), eps)
    scaled = centred * scale * widen(weight) if weighted else centred * scale

    output = scaled + widen(bias) if biased else scaled


def parameters(ndim):
    return Tensor(ndim), Tensor(1), Tensor(1), Tensor(0), Tensor(ndim), *flags(2)


@functools.cache
def make(ndim=2):
    """The kernel `(input, weight, bias, eps, output, weighted, biased)` for tensors of `ndim` dimensions.

    The last dimension is the row. Where `weighted` or `biased` is false, `weight` or `bias` is any vector of the row's
    length: it is not read.
    """
    return ninetoothed.make(arrange.rows, application, parameters(ndim), kernel_name="layer_norm")

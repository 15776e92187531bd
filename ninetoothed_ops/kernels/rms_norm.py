"""output[i] = input[i] / sqrt(mean of input[j]^2 over j + eps) * weight[i], for each row.

With a unit offset, the factor is 1 + weight[i].
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

from .numeric import factor_of, widen
from .parameters import flags


def application(input, weight, eps, output, weighted, unit_offset):
    wide = widen(input)
    # The sum waits for the whole row: halves of the weight are asked for before, where they fit in registers beside it.
    is_ahead = weighted and weight.dtype in (ntl.float16, ntl.bfloat16)
    factor = factor_of(weight, unit_offset) if is_ahead else None
    normalized = wide * ntl.rsqrt(ntl.sum(wide * wide) / input.shape[0] + eps)

    output = normalized * (factor if is_ahead else factor_of(weight, unit_offset)) if weighted else normalized


def parameters(ndim, unit_offset):
    return Tensor(ndim), Tensor(1), Tensor(0), Tensor(ndim), *flags(1, unit_offset)


@functools.cache
def make(ndim=2, unit_offset=False):
    """The kernel `(input, weight, eps, output, weighted)` for tensors of `ndim` dimensions, whose last is the row.

    Where `weighted` is false, `weight` is any vector of the row's length: it is not read.
    """
    return ninetoothed.make(arrange.rows, application, parameters(ndim, unit_offset), kernel_name="rms_norm")

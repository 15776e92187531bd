"""input_grad[i] = -grad[i] * scale * target[i], and target_grad[i] = grad[i] * scale * (log(target[i]) + 1 - input[i]).

Where targets are logarithms, target[i] stands for exp(target[i]) in the first, and the second is
grad[i] * scale * exp(target[i]) * (target[i] + 1 - input[i]). A target of 0 has no gradient of its own: NaN.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

from .numeric import computed, exponential, widen
from .parameters import flags


def application(grad, input, target, scale, input_grad, target_grad, log_target, to_input, to_target):
    slope = widen(grad) * ntl.cast(scale, computed(grad.dtype))
    score, mass = widen(input), widen(target)
    share = exponential(mass, target.dtype) if log_target else mass
    if to_input:
        input_grad = -slope * share
    if to_target:
        target_grad = slope * (share * (mass + 1 - score) if log_target else ntl.log(mass) + mass / mass - score)


@functools.cache
def make(ndim=1):
    """The kernel `(grad, input, target, scale, input_grad, target_grad, log_target, to_input, to_target)`.

    The tensors have `ndim` dimensions; a gradient that is not asked for is not written.
    """
    tensors = *(Tensor(ndim) for _ in range(3)), Tensor(0), Tensor(ndim), Tensor(ndim), *flags(3)

    return ninetoothed.make(arrange.blocks, application, tensors, kernel_name="kl_div_backward")

"""input_grad = grad * (1 - beta) * Q * (input - log M), and target_grad = grad * beta * P * (target - log M), by rows.

Q, P and M are those of `jsd`. With a beta of 0 they are -grad * P and grad * P * (target - input + 1); with one of 1
the other way round. Rows whose label is `ignore_index` get zeros.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .cross_entropy import LONGEST_CHUNK, arrangement, typed
from .jsd import mixed, times
from .numeric import exponential, widen
from .parameters import flags


def of_elements(input, target, beta, end):
    """The derivatives of `jsd.divergence` by input and target."""
    if end == 0:
        mass = exponential(widen(target), target.dtype)
        return -mass, times(mass, widen(target) - widen(input) + 1)
    if end == 1:
        mass = exponential(widen(input), input.dtype)
        return times(mass, widen(input) - widen(target) + 1), -mass
    log_q, log_p, log_m, part_q, part_p = mixed(input, target, beta)

    return times(part_q, log_q - log_m), times(part_p, log_p - log_m)


def application(
    grad, input, target, labels, ignore_index, beta, input_grad, target_grad, labelled, end, to_input, to_target
):
    mixture, slope = typed(input, beta, grad)
    is_kept = (labels != ignore_index) if labelled else True
    for i in range(input.shape[0]):
        of_input, of_target = of_elements(input[i], target[i], mixture, end)
        if to_input:
            input_grad[i] = ntl.where(is_kept, slope * of_input, 0.0)
        if to_target:
            target_grad[i] = ntl.where(is_kept, slope * of_target, 0.0)


@functools.cache
def make(chunk=LONGEST_CHUNK):
    """The kernel `(grad, input, target, labels, ignore_index, beta, input_grad, target_grad, ...flags)` for matrices.

    The flags are those of `jsd.make`, and whether each gradient is asked for: one that is not is not written.
    """
    tensors = Tensor(1), Tensor(2), Tensor(2), Tensor(1), Tensor(0), Tensor(0), Tensor(2), Tensor(2), *flags(4)
    arranged = functools.partial(arrangement, of_rows=(0, 3), chunk=chunk)

    return ninetoothed.make(arranged, application, tensors, kernel_name="jsd_backward")

"""loss[i] = target[i] * (log(target[i]) - input[i]), for inputs that are logarithms; 0 where the target is 0.

Where targets are logarithms too, loss[i] = exp(target[i]) * (target[i] - input[i]). Element by element, or added up
along each row.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

from .cross_entropy import LONGEST_CHUNK, arrangement
from .numeric import computed, exponential, widen
from .parameters import flags


def divergence(input, target, log_target):
    """The loss of each element of a tile."""
    score, mass = widen(input), widen(target)
    if log_target:
        return exponential(mass, target.dtype) * (mass - score)

    return ntl.where(mass == 0, 0.0, mass * ntl.log(mass)) - mass * score


def application(input, target, loss, log_target):
    loss = divergence(input, target, log_target)


def application_of_rows(input, target, loss, log_target):
    total = ntl.zeros((), dtype=computed(input.dtype.dtype))
    for i in range(input.shape[0]):
        total += ntl.sum(divergence(input[i], target[i], log_target))

    loss = total


@functools.cache
def make(ndim=1):
    """The kernel `(input, target, loss, log_target)`, element by element, for tensors of `ndim` dimensions."""
    tensors = *(Tensor(ndim) for _ in range(3)), *flags(1)

    return ninetoothed.make(arrange.blocks, application, tensors, kernel_name="kl_div")


@functools.cache
def make_of_rows(chunk=LONGEST_CHUNK):
    """The kernel `(input, target, loss, log_target)` for matrices, and a loss for each row."""
    tensors = Tensor(2), Tensor(2), Tensor(1), *flags(1)
    arranged = functools.partial(arrangement, of_rows=(2,), chunk=chunk)

    return ninetoothed.make(arranged, application_of_rows, tensors, kernel_name="kl_div_of_rows")

"""loss = beta * KL(P || M) + (1 - beta) * KL(Q || M), for each row, with M = beta * P + (1 - beta) * Q.

Q = exp(input) and P = exp(target): the generalised divergence of Jensen and Shannon, of logarithms. With a beta of 0 it
is KL(P || Q), with one of 1 KL(Q || P). Rows whose label is `ignore_index` have a loss of 0. An element whose
probability is 0 in both adds nothing.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .cross_entropy import LONGEST_CHUNK, arrangement, typed
from .numeric import computed, exponential, widen
from .parameters import flags


def times(mass, logarithm):
    """The product of a probability and a logarithm: 0 where the probability is."""
    return ntl.where(mass == 0, 0.0, mass * logarithm)


def mixed(input, target, beta):
    """The logarithms Q, P and those of their mixture M, and the parts of Q and P in it."""
    log_q, log_p = widen(input), widen(target)
    part_q = (1 - beta) * exponential(log_q, input.dtype)
    part_p = beta * exponential(log_p, input.dtype)

    return log_q, log_p, ntl.log(part_q + part_p), part_q, part_p


def divergence(input, target, beta, end):
    """The loss of each element; end: whether beta is 0, or 1, or neither."""
    if end == 0:
        return times(exponential(widen(target), target.dtype), widen(target) - widen(input))
    if end == 1:
        return times(exponential(widen(input), input.dtype), widen(input) - widen(target))
    log_q, log_p, log_m, part_q, part_p = mixed(input, target, beta)

    return times(part_p, log_p - log_m) + times(part_q, log_q - log_m)


def application(input, target, labels, ignore_index, beta, loss, labelled, end):
    (mixture,) = typed(input, beta)
    total = ntl.zeros((), dtype=computed(input.dtype.dtype))
    for i in range(input.shape[0]):
        total += ntl.sum(divergence(input[i], target[i], mixture, end))

    loss = ntl.where(labels == ignore_index, 0.0, total) if labelled else total


@functools.cache
def make(chunk=LONGEST_CHUNK):
    """The kernel `(input, target, labels, ignore_index, beta, loss, labelled, end)` for matrices.

    The labels and the losses are vectors; where `labelled` is false, labels are not read. end: 0 or 1 where beta is
    that, else 2.
    """
    tensors = Tensor(2), Tensor(2), Tensor(1), Tensor(0), Tensor(0), Tensor(1), *flags(2)
    arranged = functools.partial(arrangement, of_rows=(2, 5), chunk=chunk)

    return ninetoothed.make(arranged, application, tensors, kernel_name="jsd")

"""The loss of a block of logits, and in their place its gradient: `cross_entropy` and its backward in one kernel.

logits[c] = grad * (mass_and_z * exp(score[c] - lse) - share[c]) * slope[c], for each row.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .cross_entropy import (
    LONGEST_CHUNK,
    arrangement,
    element,
    log_of_sum,
    loss_of,
    own_share,
    picked_by_all,
    score_of,
    typed,
)
from .cross_entropy_backward import factors_of, gradient_of_row
from .parameters import flags


def application(
    grad, logits, target, weight, ignore_index, keep, spread, total_weight, softcap, z_loss, loss,
    weighted, smoothed, capped, squared,
):  # fmt: skip
    slope, kept, evenly, total, cap, z = typed(logits, grad, keep, spread, total_weight, softcap, z_loss)
    lse = log_of_sum(logits, cap, capped)
    own = own_share(target, weight, kept, weighted)
    picked = own * score_of(element(logits, target), cap, capped)
    if smoothed:
        picked += picked_by_all(logits, weight, evenly, cap, weighted, capped)

    is_ignored, is_class = target == ignore_index, (target >= 0) & (target < logits.source.shape[-1])
    mass = own + total if smoothed else own
    loss = loss_of(is_ignored, is_class, mass, lse, picked, z, squared)
    slope = ntl.where(is_ignored, 0.0, ntl.where(is_class, slope, float("nan")))
    factors = factors_of(slope, mass, lse, z, squared)

    gradient_of_row(
        logits, logits, weight, target, own, evenly, cap, lse, factors, weighted, smoothed, capped
    )  # fmt: skip


@functools.cache
def make(chunk=LONGEST_CHUNK):
    """The kernel `(grad, logits, target, weight, ..., loss, weighted, smoothed, capped, squared)` for matrices.

    grad: the gradient of every loss, a number. The others are those of `cross_entropy.make`.
    """
    scalars = (Tensor(0) for _ in range(6))
    tensors = Tensor(0), Tensor(2), Tensor(1), Tensor(1), *scalars, Tensor(1), *flags(4)
    arranged = functools.partial(arrangement, of_rows=(2, 10), chunk=chunk)

    return ninetoothed.make(arranged, application, tensors, kernel_name="linear_cross_entropy")

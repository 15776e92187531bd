"""input_grad[c] = grad * (mass_and_z * exp(score[c] - lse) - share[c]) * slope[c], for each row.

Here mass_and_z = mass + 2 * z_loss * lse, the slope is 1 or, with a softcap, 1 - (score[c] / softcap)^2, and the others
are those of `cross_entropy`. Rows may be a part of the classes, from the class `first` on: the weights are then those
of that part.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .cross_entropy import LONGEST_CHUNK, arrangement, own_share, score_of, typed
from .numeric import exponential, widen
from .parameters import flags


def through_score(slope, score, softcap, capped):
    """Take the gradient of scores to the inputs."""
    return slope * (1 - (score / softcap) * (score / softcap)) if capped else slope


def factors_of(grad, mass, lse, z_loss, squared):
    """Return what all classes of a row share: the gradient of its loss, and that times mass_and_z."""
    return grad, grad * (mass + 2 * z_loss * lse if squared else mass)


def gradient_of_row(
    input, input_grad, weight, column, own, spread, softcap, lse, factors, weighted, smoothed, capped
):  # fmt: skip
    """Write the gradient of a row chunk by chunk; the target has the share `own` more in a column of it, if any."""
    (factor, mass_factor), narrow = factors, ntl.cast(column, ntl.int32)

    for i in range(input.shape[0]):
        columns = input[i].offsets(input.source.ndim - 1)
        scores = score_of(input[i], softcap, capped)
        share = ntl.where(columns == narrow, own, 0.0)
        if smoothed:
            share += spread * widen(weight[i]) if weighted else spread
        slope = mass_factor * exponential(scores - lse, input.dtype.dtype) - factor * share
        input_grad[i] = through_score(slope, scores, softcap, capped)


def application(
    grad, input, target, weight, ignore_index, keep, spread, softcap, z_loss, lse, mass, first, classes,
    input_grad, weighted, smoothed, capped, squared,
):  # fmt: skip
    kept, evenly, cap, z, slope = typed(input, keep, spread, softcap, z_loss, grad)
    is_ignored, is_class, column = target == ignore_index, (target >= 0) & (target < classes), target - first
    slope = ntl.where(is_ignored, 0.0, ntl.where(is_class, slope, float("nan")))
    factors = factors_of(slope, mass, lse, z, squared)
    own = own_share(column, weight, kept, weighted)

    gradient_of_row(
        input, input_grad, weight, column, own, evenly, cap, lse, factors, weighted, smoothed, capped
    )  # fmt: skip


def application_of_probabilities(
    grad, input, target, weight, keep, spread, softcap, z_loss, lse, mass, input_grad, weighted, capped, squared
):
    kept, evenly, cap, z, slope = typed(input, keep, spread, softcap, z_loss, grad)
    factor, mass_factor = factors_of(slope, mass, lse, z, squared)

    for i in range(input.shape[0]):
        scores = score_of(input[i], cap, capped)
        share = kept * widen(target[i]) + evenly
        share = share * widen(weight[i]) if weighted else share
        found = mass_factor * exponential(scores - lse, input.dtype.dtype) - factor * share
        input_grad[i] = through_score(found, scores, cap, capped)


@functools.cache
def make(ndim=2, chunk=LONGEST_CHUNK):
    """The kernel of targets that name classes, for inputs of 2 or 3 dimensions, whose last is the row.

    `(grad, input, target, weight, ignore_index, keep, spread, softcap, z_loss, lse, mass, first, classes, input_grad,
    weighted, smoothed, capped, squared)`: as `cross_entropy.make`. The gradient may be the memory of the input.
    """
    tensors = Tensor(1), Tensor(ndim), Tensor(1), Tensor(1), *(Tensor(0) for _ in range(5)), Tensor(1), Tensor(1)
    tensors = *tensors, Tensor(0), Tensor(0), Tensor(ndim), *flags(4)
    arranged = functools.partial(arrangement, of_rows=(0, 2, 9, 10), chunk=chunk)

    return ninetoothed.make(arranged, application, tensors, kernel_name="cross_entropy_backward")


@functools.cache
def make_of_probabilities(ndim=2, chunk=LONGEST_CHUNK):
    """The kernel of targets like the input, of which each element is a probability.

    `(grad, input, target, weight, keep, spread, softcap, z_loss, lse, mass, input_grad, weighted, capped, squared)`.
    """
    scalars = (Tensor(0) for _ in range(4))
    tensors = Tensor(1), Tensor(ndim), Tensor(ndim), Tensor(1), *scalars, Tensor(1), Tensor(1), Tensor(ndim), *flags(3)
    arranged = functools.partial(arrangement, of_rows=(0, 8, 9), chunk=chunk)
    named = "cross_entropy_of_probabilities_backward"

    return ninetoothed.make(arranged, application_of_probabilities, tensors, kernel_name=named)

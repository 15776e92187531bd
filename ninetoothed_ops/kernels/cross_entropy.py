"""loss = mass * lse - (sum over c of share[c] * score[c]) + z_loss * lse^2, for each row.

Here lse = log(sum over c of exp(score[c])), and mass is the sum of the shares. A target that names a class has the
shares (keep if c is the target else 0) * weight[target] + spread * weight[c], one of probabilities
(keep * target[c] + spread) * weight[c], where keep is 1 - label_smoothing and spread label_smoothing / classes. Scores
are the inputs or, with a softcap, softcap * tanh(input / softcap). A row whose target is `ignore_index` has a loss and
a mass of 0; one whose target is no class, NaN.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

from .numeric import computed, exponential, widen
from .parameters import flags

# Rows are read in chunks of at most so many elements.
LONGEST_CHUNK = 8192


def chunk_of(columns):
    """Choose how many elements of rows of this length a chunk has: a power of two."""
    return min(LONGEST_CHUNK, 1 << max(columns - 1, 15).bit_length())


def arrangement(*tensors, of_rows, chunk):
    """Give each program a row in chunks, all of each vector, and of the tensors `of_rows` the number of its row."""
    chunked = iter(arrange.row_blocks(*(x for i, x in enumerate(tensors) if i not in of_rows), BLOCK_SIZE=chunk))

    return tuple(x.tile(None) if i in of_rows else next(chunked) for i, x in enumerate(tensors))


def typed(like, *numbers):
    """Convert numbers to the type in which a row is computed: as they are passed, they would widen it."""
    return [ntl.cast(number, computed(like.dtype.dtype)) for number in numbers]


def score_of(tile, softcap, capped):
    return softcap * ntl.tanh(widen(tile) / softcap) if capped else widen(tile)


def log_of_sum(input, softcap, capped):
    """The logarithm of the sum of the exponentials of a row's scores, relative to a peak that rises on the way."""
    dtype = computed(input.dtype.dtype)
    peak, total = ntl.full((), float("-inf"), dtype=dtype), ntl.zeros((), dtype=dtype)

    for i in range(input.shape[0]):
        scores = score_of(input[i], softcap, capped)
        new_peak = ntl.maximum(peak, ntl.max(scores))
        shift = ntl.where(new_peak == float("-inf"), 0.0, new_peak)
        total = total * ntl.exp(peak - shift) + ntl.sum(exponential(scores - shift, input.dtype.dtype))
        peak = new_peak

    return peak + ntl.log(total)


def element(input, column):
    """The element of the row in a column."""
    if input.source.ndim == 2:
        return input.source[input[0].offsets(0), column]

    return input.source[input[0].offsets(0), input[0].offsets(1), column]


def own_share(target, weight, keep, weighted):
    """The share that the class of a target has beyond that of all."""
    return keep * widen(weight.source[target]) if weighted else keep


def picked_by_all(input, weight, spread, softcap, weighted, capped):
    """The sum of the scores of a row, each times the share that every class has."""
    total = ntl.zeros((), dtype=computed(input.dtype.dtype))
    for i in range(input.shape[0]):
        scores = score_of(input[i], softcap, capped)
        total += ntl.sum(scores * (spread * widen(weight[i])) if weighted else scores * spread)

    return total


def loss_of(is_ignored, is_class, mass, lse, picked, z_loss, squared):
    """The loss of a row, whose target names a class."""
    loss = mass * lse - picked + z_loss * lse * lse if squared else mass * lse - picked

    return ntl.where(is_ignored, 0.0, ntl.where(is_class, loss, float("nan")))


def application(
    input, target, weight, ignore_index, keep, spread, total_weight, softcap, z_loss,
    loss, lse, mass, weighted, smoothed, capped, squared,
):  # fmt: skip
    """The loss of targets that name classes; total_weight: the sum of the classes' weights, times spread."""
    kept, evenly, total, cap, z = typed(input, keep, spread, total_weight, softcap, z_loss)
    log_of_total = log_of_sum(input, cap, capped)
    own = own_share(target, weight, kept, weighted)
    picked = own * score_of(element(input, target), cap, capped)

    if smoothed:
        picked += picked_by_all(input, weight, evenly, cap, weighted, capped)

    is_ignored, is_class = target == ignore_index, (target >= 0) & (target < input.source.shape[-1])
    share = ntl.where(is_ignored, 0.0, own + total if smoothed else own)
    loss = loss_of(is_ignored, is_class, share, log_of_total, picked, z, squared)
    lse = log_of_total
    mass = share


def application_of_probabilities(
    input, target, weight, keep, spread, softcap, z_loss, loss, lse, mass, weighted, capped, squared
):
    kept, evenly, cap, z = typed(input, keep, spread, softcap, z_loss)
    log_of_total = log_of_sum(input, cap, capped)
    share, picked = ntl.zeros((), dtype=log_of_total.dtype), ntl.zeros((), dtype=log_of_total.dtype)

    for i in range(input.shape[0]):
        part = kept * widen(target[i]) + evenly
        part = part * widen(weight[i]) if weighted else part
        share += ntl.sum(part)
        picked += ntl.sum(part * score_of(input[i], cap, capped))

    result = share * log_of_total - picked
    loss = result + z * log_of_total * log_of_total if squared else result
    lse = log_of_total
    mass = share


@functools.cache
def make(ndim=2, chunk=LONGEST_CHUNK):
    """The kernel of targets that name classes, for inputs of 2 or 3 dimensions, whose last is the row.

    `(input, target, weight, ignore_index, keep, spread, total_weight, softcap, z_loss, loss, lse, mass, weighted,
    smoothed, capped, squared)`: the flags tell whether there are weights, a spread, a softcap and a z_loss. The target
    and the results are vectors.
    """
    scalars = (Tensor(0) for _ in range(6))
    tensors = Tensor(ndim), Tensor(1), Tensor(1), *scalars, Tensor(1), Tensor(1), Tensor(1), *flags(4)
    arranged = functools.partial(arrangement, of_rows=(1, 9, 10, 11), chunk=chunk)

    return ninetoothed.make(arranged, application, tensors, kernel_name="cross_entropy")


@functools.cache
def make_of_probabilities(ndim=2, chunk=LONGEST_CHUNK):
    """The kernel of targets like the input, of which each element is a probability.

    `(input, target, weight, keep, spread, softcap, z_loss, loss, lse, mass, weighted, capped, squared)`.
    """
    scalars = (Tensor(0) for _ in range(4))
    tensors = Tensor(ndim), Tensor(ndim), Tensor(1), *scalars, Tensor(1), Tensor(1), Tensor(1), *flags(3)
    arranged = functools.partial(arrangement, of_rows=(7, 8, 9), chunk=chunk)
    named = "cross_entropy_of_probabilities"

    return ninetoothed.make(arranged, application_of_probabilities, tensors, kernel_name=named)

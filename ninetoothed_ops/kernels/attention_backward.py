"""Weights of attention anew from the log-sum-exp that the forward kept, for the kernels of its gradients.

    weights = 2^((query @ key^T * scale + mask) * log2(e) - lse)
    d_weights = (grad @ value^T) * kept / (1 - rate)
    d_scores = weights * (d_weights - delta),    delta = rowsum(grad * output)

FlashAttention-2 (Dao, 2023). `delta` is the sum over keys of weights * d_weights, whatever is dropped or masked. Where
scores are capped, softcap * tanh(query @ key^T * scale / softcap) stands for query @ key^T * scale, and the gradient of
that is d_scores * (1 - tanh^2). A sink has a part in lse alone.
"""

import ninetoothed.language as ntl

from .attention import ADDITIVE_MASK, BOOLEAN_MASK, LOG2E, cap_of, inputs, kept, row_numbers, scores_of
from .parameters import flags


def weights_of(scores, scale, lse, peak, mask, masking):
    """Weights of a tile of scores in units of `scale`; where a mask is added, lse is in two parts."""
    if masking == ADDITIVE_MASK:
        return ntl.exp2((scores * scale + mask - peak) * LOG2E - lse)

    weights = ntl.exp2(scores * (scale * LOG2E) - lse)

    return ntl.where(mask, weights, 0.0) if masking == BOOLEAN_MASK else weights


def dropped(tile, is_kept, rate):
    """The tile as dropout leaves it; a rate of 1 keeps nothing, which may be divided by any number."""
    return ntl.where(is_kept, tile * (1.0 / max(1.0 - rate, 1e-30)), 0.0)


def visible(tile, columns, rows, length):
    """The tile with zeros for keys beyond the diagonal, if there are `rows`, or from `length` on, if there is one."""
    return _before(length, columns, tile if rows is None else ntl.where(columns <= rows, tile, 0.0))


def _before(length, columns, tile):
    return tile if length is None else ntl.where(columns < length, tile, 0.0)


def slopes_of(query, key, value, grad, lse, peak, delta, mask, masking, unit, cap, drop):
    """The scores of a block, and d_scores as if these were not capped. drop: a seed and a rate, or None."""
    scores = scores_of(query, key, cap)
    weights = weights_of(scores, unit, lse, peak, mask, masking)
    slopes = ntl.dot(grad, ntl.trans(value))

    if drop is not None:
        is_kept = kept(row_numbers(query)[:, None], key.offsets(-2)[None, :], *drop)
        slopes = dropped(slopes, is_kept, drop[1])

    return scores, weights * (slopes - delta)


def through_cap(slopes, scores, cap):
    """Take the gradient of capped scores to those before."""
    return slopes if cap is None else slopes * (1.0 - scores * scores)


def stages_of(is_wide):
    """One stage for heads wider than 128, of which blocks of 64 rows and keys leave no shared memory for more."""
    return 1 if is_wide else None


def parameters(query, key, value, mask, grad, vectors, results, count, is_capped, *options):
    """Make the parameters of a kernel of gradients: see `sdpa_with_lse.make`.

    vectors: lse, peak and delta. results: the gradients. count: how many flags there are. Where scores are not capped,
    a call gives no softcap. options: more that come last.
    """
    capping = cap_of(is_capped), *flags(0, is_capped)

    return *inputs(query, key, value, mask), grad, *vectors, *results, *flags(count), *capping, *options

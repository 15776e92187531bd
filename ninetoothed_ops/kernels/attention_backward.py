"""Weights of attention anew from the log-sum-exp that the forward kept, for the kernels of its gradients.

    weights = 2^((query @ key^T * scale + mask) * log2(e) - lse)
    d_weights = (grad @ value^T) * kept / (1 - rate)
    d_scores = weights * (d_weights - delta),    delta = rowsum(grad * output)

FlashAttention-2 (Dao, 2023). `delta` is the sum over keys of weights * d_weights, whatever is dropped or masked.
"""

import ninetoothed.language as ntl

from .attention import ADDITIVE_MASK, BOOLEAN_MASK

# lse is of base 2, so that each weight takes one multiplication and one exponential.
LOG2E = 1.4426950408889634


def weights_of(scores, scale, lse, peak, mask, masking):
    """Weights of a tile of scores; where a mask is added, lse is in two parts."""
    if masking == ADDITIVE_MASK:
        return ntl.exp2((scores * scale + mask - peak) * LOG2E - lse)

    weights = ntl.exp2(scores * (scale * LOG2E) - lse)

    return ntl.where(mask, weights, 0.0) if masking == BOOLEAN_MASK else weights


def dropped(tile, is_kept, rate):
    """The tile as dropout leaves it; a rate of 1 keeps nothing, which may be divided by any number."""
    return ntl.where(is_kept, tile * (1.0 / max(1.0 - rate, 1e-30)), 0.0)

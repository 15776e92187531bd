"""delta = sum over keys of weights * d_weights: without an output, which has been rounded, and weights rounded for it.

Block by block of keys, for a block of queries (see `attention_backward`): the gradient of a mask needs it.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .attention import ADDITIVE_MASK, bounds, by_rows, held, matrices, rows, vectors
from .attention_backward import parameters, slopes_of, stages_of, visible
from .numeric import computed


def arrangement(query, key, value, mask, lengths, seed, scale, rate, grad, lse, peak, delta, *flags):
    tiled = by_rows(query, key, value, mask, lengths)

    return *tiled, seed, scale, rate, *map(rows, (grad, lse, peak, delta)), *flags


def application(
    query, key, value, mask, lengths, seed, scale, rate, grad, lse, peak, delta,
    is_causal, ragged, drops, softcap, is_capped,
):  # fmt: skip
    cap, unit = ((scale, softcap), softcap) if is_capped else (None, scale)
    drop, length = (seed, rate) if drops else None, held(lengths, key) if ragged else None
    total = ntl.zeros(query.shape[:1], dtype=computed(query.dtype))
    _, stop = bounds(query, key, length, is_causal)

    for j in range(ntl.cdiv(stop, key.dtype.shape[0])):
        _, slopes = slopes_of(query, key[j], value[j], grad, lse, peak, 0.0, mask[j], ADDITIVE_MASK, unit, cap, drop)
        row_places = query.offsets(-2)[:, None] if is_causal else None
        total += ntl.sum(visible(slopes, key[j].offsets(-2)[None, :], row_places, length), axis=1)

    delta = total[:, None]


@functools.cache
def make(is_capped=False, is_wide=False):
    """The kernel, of the parameters of `application`: see `sdpa_backward_mask.make`; `delta` is like `lse`."""
    query, key, value, grad = matrices(4)
    lse, peak, delta = vectors(3)
    tensors = parameters(query, key, value, Tensor(4), grad, (lse, peak), (delta,), 3, is_capped)

    return ninetoothed.make(
        arrangement, application, tensors, kernel_name="sdpa_backward_exact_delta", num_stages=stages_of(is_wide)
    )

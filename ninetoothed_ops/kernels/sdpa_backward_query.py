"""query_grad = d_scores @ key * scale: block by block of keys, for a block of queries (see `attention_backward`)."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .attention import NO_MASK, bounds, by_rows, held, matrices, rows, vectors, window_bounds, window_of, within
from .attention_backward import parameters, slopes_of, through_cap, visible
from .numeric import computed


def arrangement(query, key, value, mask, lengths, seed, scale, rate, grad, lse, peak, delta, query_grad, *flags):
    tiled = by_rows(query, key, value, mask, lengths)

    return *tiled, seed, scale, rate, *map(rows, (grad, lse, peak, delta, query_grad)), *flags


def application(
    query, key, value, mask, lengths, seed, scale, rate, grad, lse, peak, delta, query_grad,
    masking, is_causal, ragged, drops, softcap, is_capped, left, right, is_windowed,
):  # fmt: skip
    cap, unit = ((scale, softcap), softcap) if is_capped else (None, scale)
    drop, length = (seed, rate) if drops else None, held(lengths, key) if ragged else None
    total = ntl.zeros(query.shape, dtype=computed(query.dtype))
    whole, stop = bounds(query, key, length, is_causal)

    def take_in(j, total, edge):
        """Take in block j; only at an `edge` may some of its keys lie beyond the last one or the diagonal."""
        shown, columns = key[j], key[j].offsets(-2)
        masked = mask[j] if masking != NO_MASK else None
        scores, slopes = slopes_of(query, key[j], value[j], grad, lse, peak, delta, masked, masking, unit, cap, drop)
        slopes = through_cap(slopes, scores, cap)

        if edge:
            slopes = visible(slopes, columns[None, :], query.offsets(-2)[:, None] if is_causal else None, length)
            shown = visible(key[j], columns[:, None], None, length)

        if is_windowed:
            slopes = ntl.where(within(columns[None, :], query.offsets(-2)[:, None], left, right), slopes, 0.0)

        total += ntl.dot(ntl.cast(slopes, key.dtype.dtype), shown)

    if is_windowed:
        first, last = window_bounds(query, key, left, right)

        for j in range(first, last):
            take_in(j, total, True)
    else:
        for j in range(whole):
            take_in(j, total, False)

        for j in range(whole, ntl.cdiv(stop, key.dtype.shape[0])):
            take_in(j, total, True)

    query_grad = total * scale


@functools.cache
def make(is_capped=False, jagged_dim=None, is_windowed=False):
    """The kernel, of the parameters of `application`: see `sdpa_with_lse.make`; `delta` is like `lse`."""
    query, key, value, grad, query_grad = matrices(5, jagged_dim=jagged_dim)
    each_row = vectors(3, jagged_dim=jagged_dim)
    tensors = parameters(
        query, key, value, Tensor(4), grad, each_row, (query_grad,), 4, is_capped, *window_of(is_windowed)
    )

    return ninetoothed.make(arrangement, application, tensors, kernel_name="sdpa_backward_query")

"""query_grad = d_scores @ key * scale: block by block of keys, for a block of queries (see `attention_backward`)."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .attention import (
    NO_MASK,
    absent,
    blocks,
    bounds,
    capped,
    entries,
    held,
    kept,
    masks,
    matrices,
    row_numbers,
    rows,
    vectors,
)
from .attention_backward import dropped, weights_of
from .numeric import computed


def arrangement(query, key, value, mask, lengths, seed, scale, rate, grad, lse, peak, delta, query_grad, *flags):
    tiled = rows(query), blocks(key, query), blocks(value, query), masks(mask), entries(lengths, rows(query))

    return *tiled, seed, scale, rate, *map(rows, (grad, lse, peak, delta, query_grad)), *flags


def application(
    query,
    key,
    value,
    mask,
    lengths,
    seed,
    scale,
    rate,
    grad,
    lse,
    peak,
    delta,
    query_grad,
    masking,
    is_causal,
    ragged,
    drops,
    softcap,
    is_capped,
):
    unit = softcap if is_capped else scale
    length = held(lengths, key) if ragged else None
    total = ntl.zeros(query.shape, dtype=computed(query.dtype))
    whole, stop = bounds(query, key, length, is_causal)

    def take_in(j, total, edge):
        """Take in block j; only at an `edge` may some of its keys lie beyond the last one or the diagonal."""
        shown, columns = key[j], key[j].offsets(-2)
        scores = ntl.dot(query, ntl.trans(key[j]))
        scores = capped(scores, query.dtype, scale, softcap) if is_capped else scores
        weights = weights_of(scores, unit, lse, peak, mask[j] if masking != NO_MASK else None, masking)
        slopes = ntl.dot(grad, ntl.trans(value[j]))

        if drops:
            slopes = dropped(slopes, kept(row_numbers(query)[:, None], columns[None, :], seed, rate), rate)

        slopes = weights * (slopes - delta)
        slopes = slopes * (1.0 - scores * scores) if is_capped else slopes

        if edge and is_causal:
            slopes = ntl.where(columns[None, :] <= query.offsets(-2)[:, None], slopes, 0.0)

        if edge and ragged:
            slopes = ntl.where(columns[None, :] < length, slopes, 0.0)
            shown = ntl.where(columns[:, None] < length, key[j], 0.0)

        total += ntl.dot(ntl.cast(slopes, key.dtype.dtype), shown)

    for j in range(whole):
        take_in(j, total, False)

    for j in range(whole, ntl.cdiv(stop, key.dtype.shape[0])):
        take_in(j, total, True)

    query_grad = total * scale


@functools.cache
def make(is_capped=False):
    """The kernel, of the parameters of `application`: see `sdpa_with_lse.make`; `delta` is like `lse`."""
    query, key, value, grad, query_grad = matrices(5)
    inputs = query, key, value, Tensor(4), Tensor(1), *(Tensor(0) for _ in range(3))
    flags = (Tensor(0, constexpr=True) for _ in range(4))
    softcap = Tensor(0, constexpr=True) if is_capped else absent()
    capping = softcap, Tensor(0, constexpr=True, value=is_capped)
    tensors = *inputs, grad, *vectors(3), query_grad, *flags, *capping

    return ninetoothed.make(arrangement, application, tensors, kernel_name="sdpa_backward_query")

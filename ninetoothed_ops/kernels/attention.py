"""Attention block by block of keys: arrangements and sums, for the kernels of `sdpa` and of its gradients.

FlashAttention-2 (Dao, 2023): the softmax is summed up relative to the peak of each row so far.
"""

import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size

from .numeric import computed, widen
from .online_softmax import decay, merged
from .parameters import flags

# Sums of exponentials are kept as logarithms of base 2, so that a weight takes one multiplication and one exponential.
LOG2E = 1.4426950408889634

BLOCK_SIZE_M = block_size(lower_bound=16)
BLOCK_SIZE_N = block_size(lower_bound=16)

# Programs of so few rows are few, too: their keys are shared out over several.
FEW_ROWS = 32

# Up to it, an error of an ulp of 1 in units of a soft cap is below 1e-4 of the score's own unit.
HIGHEST_LOW_CAP = 1000.0

NO_MASK, BOOLEAN_MASK, ADDITIVE_MASK = range(3)


def matrices(count, **options):
    """Make tensors (batch, heads, rows, D) whose heads and D are known when compiling."""
    constant = {"constexpr": True}

    return tuple(Tensor(4, shape_options=(None, constant, None, constant), **options) for _ in range(count))


def vectors(count, **options):
    """Make tensors (batch, heads, rows, 1)."""
    constant = {"constexpr": True}

    return tuple(
        Tensor(shape=(None, None, None, 1), shape_options=(None, constant, None, None), **options) for _ in range(count)
    )


def absent():
    """Make a parameter that a call does not give, nor the kernel use, in the place of one that is not asked for."""
    return Tensor(0, constexpr=True, value=0)


def cap_of(is_capped):
    """Make the parameter for a soft cap."""
    return Tensor(0, constexpr=True) if is_capped else absent()


def window_of(is_windowed):
    """Make the parameters for a window: its two bounds, and whether there is one."""
    bounds = (Tensor(0), Tensor(0)) if is_windowed else (absent(), absent())
    return *bounds, *flags(0, is_windowed)


def inputs(query, key, value, mask):
    """Make the first parameters of kernels with gradients: these, lengths, seed, scale and rate of dropout."""
    return query, key, value, mask, Tensor(1), *(Tensor(0) for _ in range(3))


def rows(tensor):
    """Give each program a block of rows: of queries, or of what there is for each of them."""
    return tensor.tile(None, None, BLOCK_SIZE_M, -1)


def numbers(tensor):
    """Give each program the numbers of a block of rows, of which there is one a row."""
    return tensor.tile(None, None, BLOCK_SIZE_M, None)


def repeated(tensor, query):
    """Repeat heads of keys or values: one for each head of queries."""
    group = query.shape[1] // tensor.shape[1]

    return tensor.unsqueeze(2).expand((-1, -1, group, -1, -1)).flatten(1, 3)


def blocks(tensor, query):
    """Give each block of queries all blocks of keys or values of the head that serves its own."""
    tiled = repeated(tensor, query).tile(None, None, BLOCK_SIZE_N, -1, loop=2)
    return tiled.expand(-1, -1, rows(query).shape[2], -1)


def masks(mask):
    """Give each block of queries its blocks of the mask, one for each block of keys."""
    return mask.tile(None, None, BLOCK_SIZE_M, BLOCK_SIZE_N, loop=3)


def by_rows(query, key, value, mask, lengths):
    """Give each program a block of queries, and what these need of all else that attention reads."""
    return rows(query), blocks(key, query), blocks(value, query), masks(mask), entries(lengths, rows(query))


def entries(lengths, tiled):
    """Give each program the length of its batch entry."""
    return lengths.tile((1,))[:, None, None, None].expand((-1, *tiled.shape[1:]))


def held(lengths, key):
    """The number of keys of a program's batch entry: no more than there are, and not below 0."""
    return min(ntl.maximum(ntl.cast(lengths[0], ntl.int32), 0), key.source.shape[-2])


def row_numbers(query):
    """The number of each row among those of all heads."""
    _, heads, rows, _ = query.source.shape

    return (query.offsets(0) * heads + query.offsets(1)) * rows + query.offsets(2)


def kept(rows, keys, seed, rate):
    """Tell which weights dropout keeps: all but the part `rate` of them, the same whatever the blocks."""
    counters = ntl.cast(rows, ntl.int64) * 2**32 + keys

    return ntl.rand(seed, counters, n_rounds=7) >= rate


def shown(j, value, length):
    """Read block j of the values, with zeros beyond the last one: NaN would be NaN with a weight of 0, too."""
    if length is None:
        return value[j]

    return ntl.where(value[j].offsets(-2)[:, None] < length, value[j], 0.0)


def bounds(query, key, length, is_causal):
    """The number of blocks of keys of which a block of queries sees all, and where the last key is that it sees.

    length: how many keys there are, where some of its own may be none.
    """
    stop = key.source.shape[-2] if length is None else length
    whole = stop // key.dtype.shape[0]

    if is_causal:
        first = ntl.min(query.offsets(-2))
        whole = min((first + 1) // key.dtype.shape[0], whole)
        stop = min(first + query.shape[0], stop)

    return whole, stop


def window_bounds(query, key, left, right):
    """The first and the last of the blocks of keys that a block of queries sees within a window; the last is a stop."""
    size, start = key.dtype.shape[0], ntl.min(query.offsets(-2))
    stop = min(start + query.shape[0] + right, key.source.shape[-2])

    return max(start - left, 0) // size, ntl.cdiv(stop, size)


def within(columns, rows, left, right):
    """Tell which keys rows see: from `left` before their own place to `right` after it."""
    return (columns >= rows - left) & (columns <= rows + right)


def capped(scores, dtype, scale, softcap):
    """tanh(scores * scale / softcap): capped scores, in units of `softcap`, for operands of `dtype`.

    By an exponential the error is an ulp of 1, however small the score, and so `softcap` ulps in the score: as good as
    any for halves while the cap is low, and without the branches of a tanh that is exact for small scores, too. The
    approximate tanh of GPUs is off by 2^-11, more than halves are.
    """
    if dtype in (ntl.float16, ntl.bfloat16) and softcap <= HIGHEST_LOW_CAP:
        grown = ntl.exp2(scores * (scale * (2.0 * LOG2E / softcap)))

        return 1.0 - ntl.libdevice.fast_dividef(2.0, 1.0 + grown)

    return ntl.tanh(scores * (scale / softcap))


def scores_of(left, right, cap):
    """left @ right^T, and with a `cap`, that is what `capped` needs, as it caps."""
    scores = ntl.dot(left, ntl.trans(right))

    return scores if cap is None else capped(scores, left.dtype, *cap)


def attend(
    j, query, key, value, mask, scale, peak, total, accumulator, masking, is_causal, length, edge, drop=None, cap=None,
    window=None,
):  # fmt: skip
    """Take in block j; only at an `edge` may some of its keys lie beyond the last one or the diagonal.

    length: how many keys there are, where some of its own may be none. drop: what `kept` needs to drop weights. cap:
    what `capped` needs to cap scores, whose unit is then `scale`. window: what `within` needs to tell what rows see.
    """
    scores = scores_of(query, key[j], cap)

    if masking == BOOLEAN_MASK:
        scores = ntl.where(mask[j], scores, float("-inf"))

    if masking == ADDITIVE_MASK:
        scores = scores * scale + mask[j]

    if edge and is_causal:
        visible = key[j].offsets(-2)[None, :] <= query.offsets(-2)[:, None]
        scores = ntl.where(visible, scores, float("-inf"))

    if window is not None:
        visible = within(key[j].offsets(-2)[None, :], query.offsets(-2)[:, None], *window)
        scores = ntl.where(visible, scores, float("-inf"))

    if length is not None:
        scores = ntl.where(key[j].offsets(-2)[None, :] < length, scores, float("-inf"))

    new_peak = ntl.maximum(peak, ntl.max(scores, axis=1))
    shift = new_peak if masking == NO_MASK else ntl.where(new_peak == float("-inf"), 0.0, new_peak)

    if masking == ADDITIVE_MASK:  # Those scores are scaled.
        decay = ntl.exp(peak - shift)
        weights = ntl.exp(scores - shift[:, None])
    else:
        decay = ntl.exp((peak - shift) * scale)
        weights = ntl.exp(scores * scale - (shift * scale)[:, None])

    total = total * decay + ntl.sum(weights, axis=1)

    if drop is not None:
        weights = ntl.where(kept(row_numbers(query)[:, None], key[j].offsets(-2)[None, :], *drop), weights, 0.0)

    accumulator = accumulator * decay[:, None] + ntl.dot(ntl.cast(weights, value.dtype.dtype), shown(j, value, length))
    peak = new_peak


def with_sinks(peak, total, accumulator, sinks, scale, may_be_hidden):
    """Take in one more score of each row, which has no value; see `online_softmax.decay`."""
    sinks = widen(sinks) if scale is None else widen(sinks) / scale
    new_peak = ntl.maximum(peak, sinks)
    factor = decay(peak, new_peak, scale, may_be_hidden)
    total = total * factor + decay(sinks, new_peak, scale, may_be_hidden)

    return new_peak, total, accumulator * factor[:, None]


def attention(
    query, key, value, mask, scale, output, masking, is_causal, lengths, drop=None, cap=None, sinks=None, window=None
):
    """For each row its peak, the sum of its weights relative to that, and the sum of the values with these weights.

    The peak is of scores that are not scaled, unless a mask was added to them. See `attend`.
    """
    dtype = computed(query.dtype)
    # Scores that overflow to -inf have weights of 0 beside a finite peak, whose multiples are finite, too.
    start = -1e38 / max(scale, 1.0) if masking == NO_MASK else float("-inf")
    peak = ntl.full(query.shape[:1], start, dtype=dtype)
    total = ntl.zeros(query.shape[:1], dtype=dtype)
    accumulator = ntl.zeros(output.shape, dtype=dtype)

    length = None if lengths is None else held(lengths, key)
    whole, stop = bounds(query, key, length, is_causal)
    blocks_seen = ntl.cdiv(stop, key.dtype.shape[0])
    factor = None if masking == ADDITIVE_MASK else scale

    def merge(peak, total, accumulator, other_peak, other_total, other_accumulator):
        part, other = (peak, total, accumulator), (other_peak, other_total, other_accumulator)

        return merged(part, other, factor, masking != NO_MASK)

    def take_in(j, peak, total, accumulator, length, edge):
        attend(
            j, query, key, value, mask, scale, peak, total, accumulator, masking, is_causal, length, edge, drop, cap,
            window,
        )  # fmt: skip

    if window is not None:
        first, last = window_bounds(query, key, *window)

        for j in range(first, last):
            take_in(j, peak, total, accumulator, length, True)
    elif query.shape[0] <= FEW_ROWS:
        for j in ntl.range(blocks_seen, merge=merge):
            take_in(j, peak, total, accumulator, length, True)
    else:
        for j in range(whole):
            take_in(j, peak, total, accumulator, None, False)

        for j in range(whole, blocks_seen):
            take_in(j, peak, total, accumulator, length, True)

    if sinks is None:
        return peak, total, accumulator

    return with_sinks(peak, total, accumulator, sinks, factor, masking != NO_MASK)

"""output = softmax(query @ key^T * scale + mask) @ value, for each head; a row of which nothing is visible gives zeros.

FlashAttention-2 (Dao, 2023): the softmax is summed up block by block of keys, relative to the peak of each row so far.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size

from .numeric import computed
from .online_softmax import merged

BLOCK_SIZE_M = block_size(lower_bound=16)
BLOCK_SIZE_N = block_size()

# Programs of so few rows are few, too: their keys are shared out over several.
FEW_ROWS = 32

NO_MASK, BOOLEAN_MASK, ADDITIVE_MASK = range(3)


def arrangement(query, key, value, mask, scale, output, masking, is_causal, is_eager, lengths=None):
    def rows(tensor):
        tiled = tensor.tile((1, 1, BLOCK_SIZE_M, -1))
        tiled.dtype = tiled.dtype.squeeze((0, 1))

        return tiled

    query_arranged = rows(query)

    def blocks(tensor):
        """Give each block of queries all blocks of keys or values of the head that serves its own."""
        group = query.shape[1] // tensor.shape[1]
        tensor = tensor.unsqueeze(2).expand((-1, -1, group, -1, -1)).flatten(1, 3)
        tiled = tensor.tile((1, 1, BLOCK_SIZE_N, -1)).tile((1, 1, -1, 1))
        tiled = tiled.expand((-1, -1, query_arranged.shape[2], -1))
        tiled.dtype = tiled.dtype.squeeze((0, 1, 3))
        tiled.dtype.dtype = tiled.dtype.dtype.squeeze((0, 1))

        return tiled

    mask_arranged = mask.tile((1, 1, BLOCK_SIZE_M, BLOCK_SIZE_N)).tile((1, 1, 1, -1))
    mask_arranged.dtype = mask_arranged.dtype.squeeze((0, 1, 2))
    mask_arranged.dtype.dtype = mask_arranged.dtype.dtype.squeeze((0, 1))

    tiled = query_arranged, blocks(key), blocks(value), mask_arranged
    arranged = *tiled, scale, rows(output), masking, is_causal, is_eager

    if lengths is None:
        return arranged

    # The number of its batch entry for each program.
    lengths_arranged = lengths.tile((1,))[:, None, None, None].expand((-1, *query_arranged.shape[1:]))

    return *arranged, lengths_arranged


def shown(j, value, length):
    """Read block j of the values, with zeros beyond the last one: NaN would be NaN with a weight of 0, too."""
    if length is None:
        return value[j]

    return ntl.where(value[j].offsets(-2)[:, None] < length, value[j], 0.0)


def attend(j, query, key, value, mask, scale, peak, total, accumulator, masking, is_causal, length, edge):
    """Take in block j; only at an `edge` may some of its keys lie beyond the last one or the diagonal.

    length: how many keys there are, where some of its own may be none.
    """
    scores = ntl.dot(query, ntl.trans(key[j]))

    if masking == BOOLEAN_MASK:
        scores = ntl.where(mask[j], scores, float("-inf"))

    if masking == ADDITIVE_MASK:
        scores = scores * scale + mask[j]

    if edge and is_causal:
        visible = key[j].offsets(-2)[None, :] <= query.offsets(-2)[:, None]
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
    accumulator = accumulator * decay[:, None] + ntl.dot(ntl.cast(weights, value.dtype.dtype), shown(j, value, length))
    peak = new_peak


def application(query, key, value, mask, scale, output, masking, is_causal, is_eager, lengths=None):
    dtype = computed(query.dtype)
    # Scores that overflow to -inf have weights of 0 beside a finite peak, whose multiples are finite, too.
    start = -1e38 / max(scale, 1.0) if masking == NO_MASK else float("-inf")
    peak = ntl.full(query.shape[:1], start, dtype=dtype)
    total = ntl.zeros(query.shape[:1], dtype=dtype)
    accumulator = ntl.zeros(output.shape, dtype=dtype)

    size, stop = key.dtype.shape[0], key.source.shape[-2]
    length = None

    if lengths is not None:
        stop = length = min(ntl.maximum(ntl.cast(lengths[0], ntl.int32), 0), stop)

    whole = stop // size

    if is_causal:
        first = ntl.min(query.offsets(-2))
        whole = min((first + 1) // size, whole)
        stop = min(first + query.shape[0], stop)

    factor = None if masking == ADDITIVE_MASK else scale

    def merge(peak, total, accumulator, other_peak, other_total, other_accumulator):
        part, other = (peak, total, accumulator), (other_peak, other_total, other_accumulator)

        return merged(part, other, factor, masking != NO_MASK)

    if query.shape[0] <= FEW_ROWS:
        for j in ntl.range(ntl.cdiv(stop, size), merge=merge):
            attend(j, query, key, value, mask, scale, peak, total, accumulator, masking, is_causal, length, True)
    else:
        for j in range(whole):
            attend(j, query, key, value, mask, scale, peak, total, accumulator, masking, is_causal, None, False)

        for j in range(whole, ntl.cdiv(stop, size)):
            attend(j, query, key, value, mask, scale, peak, total, accumulator, masking, is_causal, length, True)

    output = accumulator / (total if is_eager else ntl.where(total == 0.0, 1.0, total))[:, None]


@functools.cache
def make(is_eager=False, has_lengths=False):
    """The kernel `(query, key, value, mask, scale, output, masking, is_causal)`, for a `scale` above zero.

    (batch, heads, length, D); the heads of key and value are equal in number to the query's, or divide it. `mask`:
    (batch, heads, queries, keys), of any strides; it is not read where `masking` is `NO_MASK`. Rows whose scores are
    all -inf give zeros, or NaN where `is_eager`.

    With `has_lengths` there is one parameter more, `lengths`: (batch,), how many keys each batch entry has. The rest is
    not read.
    """
    constant = {"constexpr": True}
    query, key, value, output = (Tensor(4, shape_options=(None, constant, None, constant)) for _ in range(4))
    flags = (Tensor(0, constexpr=True), Tensor(0, constexpr=True), Tensor(0, constexpr=True, value=is_eager))
    lengths = (Tensor(1),) if has_lengths else ()
    tensors = (query, key, value, Tensor(4), Tensor(0), output, *flags, *lengths)

    return ninetoothed.make(arrangement, application, tensors, kernel_name="sdpa")

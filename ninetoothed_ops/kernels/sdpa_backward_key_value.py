"""key_grad = d_scores^T @ query * scale and value_grad = (weights * kept / (1 - rate))^T @ grad, for a block of keys.

Block by block of the queries of all heads that these keys serve (see `attention_backward`); no two programs add to the
same gradient. Tiles are transposed, (keys, queries), so that weights are left operands as they are. The sums of
both gradients of wide heads do not fit into registers: a kernel may compute one of them alone.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .attention import (
    ADDITIVE_MASK,
    BLOCK_SIZE_M,
    BLOCK_SIZE_N,
    NO_MASK,
    absent,
    entries,
    held,
    kept,
    matrices,
    row_numbers,
    scores_of,
    vectors,
    window_of,
    within,
)
from .attention_backward import dropped, parameters, through_cap, visible, weights_of
from .numeric import computed
from .parameters import flags as constants

# The widest heads of which the diagonal has a loop of its own, as timed on an H200.
NARROW = 64


def columns_of(tensor):
    """Give each program a block of keys or values, or of what there is for each of them."""
    return tensor.tile(None, None, BLOCK_SIZE_N, -1)


def blocks_of_rows(tensor, key):
    """Give each block of keys all blocks of queries of the heads that it serves: (heads, blocks)."""
    loop = {1: tensor.shape[1] // key.shape[1], 2: -1}
    return tensor.tile(None, None, BLOCK_SIZE_M, -1, loop=loop).expand(-1, -1, columns_of(key).shape[2], -1)


def columns_of_masks(mask, key):
    loop = {1: mask.shape[1] // key.shape[1], 2: -1}
    return mask.tile(None, None, BLOCK_SIZE_M, BLOCK_SIZE_N, loop=loop).permute(0, 1, 3, 2)


def arrangement(
    query, key, value, mask, lengths, seed, scale, rate, grad, lse, peak, delta, key_grad, value_grad, *flags
):
    query, grad, lse, peak, delta = (blocks_of_rows(tensor, key) for tensor in (query, grad, lse, peak, delta))
    lengths, mask = entries(lengths, columns_of(key)), columns_of_masks(mask, key)
    key, value = columns_of(key), columns_of(value)
    key_grad, value_grad = (columns_of(each) if each.ndim else each for each in (key_grad, value_grad))

    return query, key, value, mask, lengths, seed, scale, rate, grad, lse, peak, delta, key_grad, value_grad, *flags


def application(
    query, key, value, mask, lengths, seed, scale, rate, grad, lse, peak, delta, key_grad, value_grad,
    masking, is_causal, ragged, drops, softcap, is_capped, left, right, is_windowed,
    of_keys, of_values,
):  # fmt: skip
    cap, unit = ((scale, softcap), softcap) if is_capped else (None, scale)
    length = held(lengths, key) if ragged else None
    columns = key.offsets(-2)[:, None]
    key_total = ntl.zeros(key.shape, dtype=computed(key.dtype))
    value_total = ntl.zeros(value.shape, dtype=computed(value.dtype))

    def take_in(i, key_total, value_total, edge):
        """Take in a block of queries; only at an `edge` may the diagonal pass through it."""
        highest = ntl.trans(peak[i]) if masking == ADDITIVE_MASK else None
        masked = ntl.trans(mask[i]) if masking != NO_MASK else None
        scores = scores_of(key, query[i], cap)
        weights = weights_of(scores, unit, ntl.trans(lse[i]), highest, masked, masking)
        weights = visible(weights, columns, query[i].offsets(-2)[None, :] if edge else None, length)

        if is_windowed:
            weights = ntl.where(within(columns, query[i].offsets(-2)[None, :], left, right), weights, 0.0)

        if of_keys:
            slopes = ntl.dot(value, ntl.trans(grad[i]))

        if drops:
            is_kept = kept(row_numbers(query[i])[None, :], columns, seed, rate)

        if of_values:
            shares = dropped(weights, is_kept, rate) if drops else weights
            value_total += ntl.dot(ntl.cast(shares, grad.dtype.dtype), grad[i])

        if of_keys:
            slopes = dropped(slopes, is_kept, rate) if drops else slopes
            slopes = through_cap(weights * (slopes - ntl.trans(delta[i])), scores, cap)
            slopes = visible(slopes, columns, None, length)
            key_total += ntl.dot(ntl.cast(slopes, query.dtype.dtype), query[i])

    first, whole = edges(query, key, is_causal)

    if is_windowed:
        first, last = seen_by(query, key, left, right)

        for i in range(first, last):
            for head in range(query.shape[0]):
                take_in((head, i), key_total, value_total, False)
    else:
        if is_causal:
            for i in range(first, whole):
                for head in range(query.shape[0]):
                    take_in((head, i), key_total, value_total, True)

        for i in range(whole, query.shape[1]):
            for head in range(query.shape[0]):
                take_in((head, i), key_total, value_total, False)

    if of_keys:
        key_grad = key_total * scale

    if of_values:
        value_grad = value_total


def edges(query, key, is_causal):
    """The first block of queries that sees a block of keys, and the first that is known to see all of it."""
    if not is_causal:
        return 0, 0

    size, start = query.dtype.shape[0], ntl.min(key.offsets(-2))

    # A short loop for the diagonal begins with an empty pipeline: of wide heads, where a step has much to load, it
    # takes longer than to compare all blocks with the diagonal, in one loop.
    if key.shape[-1] > NARROW:
        return start // size, query.shape[1]

    return start // size, min(ntl.cdiv(start + key.shape[0] - 1, size), query.shape[1])


def seen_by(query, key, left, right):
    """The first and the last of the blocks of queries that see a block of keys within a window; the last is a stop."""
    size, start = query.dtype.shape[0], ntl.min(key.offsets(-2))
    stop = min(start + key.shape[0] + left, query.source.shape[-2])

    return max(start - right, 0) // size, ntl.cdiv(stop, size)


@functools.cache
def make(is_capped=False, of_keys=True, of_values=True, jagged_dim=None, is_windowed=False):
    """The kernel, of the parameters of `application`: see `sdpa_with_lse.make`; `delta` is like `lse`.

    of_keys, of_values: which gradients are computed; a call gives no tensor for the other.
    """
    key, value, *grads = matrices(4, jagged_dim=jagged_dim)
    grads = [each if is_given else absent() for each, is_given in zip(grads, (of_keys, of_values), strict=True)]
    # Beyond the last query all is 0, and adds nothing.
    query, grad = matrices(2, other=0.0, jagged_dim=jagged_dim)
    each_row = vectors(3, other=0.0, jagged_dim=jagged_dim)
    mask = Tensor(4, other=0.0, shape_options=(None, {"constexpr": True}, None, None))
    options = *window_of(is_windowed), *constants(0, of_keys, of_values)
    tensors = parameters(query, key, value, mask, grad, each_row, grads, 4, is_capped, *options)

    return ninetoothed.make(arrangement, application, tensors, kernel_name="sdpa_backward_key_value")

"""mask_grad = d_scores, for a tile of a mask that was added, summed over the batch entries and heads that share it.

See `attention_backward`. Nothing is kept of the other scores.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .attention import ADDITIVE_MASK, matrices, repeated, vectors
from .attention_backward import parameters, slopes_of, stages_of, visible
from .numeric import computed

BLOCK_SIZE = 64


def shared(tensor, mask, dim):
    """Give each tile of the mask the blocks of the rows, or of the columns, of all that share it: (entries, heads)."""
    loop = {d: tensor.shape[d] // mask.shape[d] for d in (0, 1)}
    tiled = tensor.tile(None, None, BLOCK_SIZE, -1, loop=loop).expand(-1, -1, -1, tiles(mask).shape[5 - dim])
    return tiled if dim == 2 else tiled.permute(0, 1, 3, 2)


def tiles(mask):
    return mask.tile(None, None, BLOCK_SIZE, BLOCK_SIZE)


def arrangement(query, key, value, mask, lengths, seed, scale, rate, grad, lse, peak, delta, mask_grad, *flags):
    lengths = lengths.tile((query.shape[0] // mask.shape[0],))[:, None, None, None]
    lengths = lengths.expand((-1, *tiles(mask).shape[1:]))
    key, value = (shared(repeated(tensor, query), mask, 3) for tensor in (key, value))
    query, grad, lse, peak, delta = (shared(tensor, mask, 2) for tensor in (query, grad, lse, peak, delta))

    return query, key, value, tiles(mask), lengths, seed, scale, rate, grad, lse, peak, delta, tiles(mask_grad), *flags


def application(
    query, key, value, mask, lengths, seed, scale, rate, grad, lse, peak, delta, mask_grad,
    is_causal, ragged, drops, softcap, is_capped,
):  # fmt: skip
    cap, unit = ((scale, softcap), softcap) if is_capped else (None, scale)
    drop = (seed, rate) if drops else None
    total = ntl.zeros(mask_grad.shape, dtype=computed(query.dtype.dtype))

    for entry in range(query.shape[0]):
        for head in range(query.shape[1]):
            place = entry, head
            _, slopes = slopes_of(
                query[place], key[place], value[place], grad[place], lse[place], peak[place], delta[place],
                mask, ADDITIVE_MASK, unit, cap, drop,
            )  # fmt: skip
            columns, rows = key[place].offsets(-2)[None, :], query[place].offsets(-2)[:, None] if is_causal else None
            total += visible(slopes, columns, rows, lengths[entry] if ragged else None)

    mask_grad = total


@functools.cache
def make(is_capped=False, is_wide=False):
    """The kernel, of the parameters of `application`: see `sdpa_with_lse.make`. `mask_grad` is like `mask`.

    Both have the batch entries and heads of the scores, or one for all of them.
    """
    query, key, value, grad = matrices(4)
    mask, mask_grad = (Tensor(4, shape_options=(None, {"constexpr": True}, None, None)) for _ in range(2))
    tensors = parameters(query, key, value, mask, grad, vectors(3), (mask_grad,), 3, is_capped)

    return ninetoothed.make(
        arrangement, application, tensors, kernel_name="sdpa_backward_mask", num_stages=stages_of(is_wide)
    )

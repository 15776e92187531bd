"""Queries, keys and values as one product, which rotates the first two and writes the others into a cache.

    projected = input @ weight, (rows, heads * D): heads of queries, then of keys, then of values
    output = rope(projected) for queries and keys, projected for values
    keys[slot] = the keys of output, values[slot] = the values, for each row and the slot that it is given

A tile of the product has whole heads: the columns i and i + D / 2, which rotate together, are in one tile.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size

from . import mm
from .numeric import widen
from .rope import rotate


def arrangement(projected, sin, cos, slots, keys, values, output, tokens, *, width):
    """Cut (rows, heads * D) into tiles of whole heads; each program has the caches, whole."""
    rows, columns = block_size(lower_bound=16), block_size(lower_bound=width, upper_bound=max(width, 256))
    tiled = output.tile((rows, columns))

    def angles(table):
        return table.tile((rows, -1)).expand((-1, tiled.shape[1]))

    def whole(cache):
        return cache.tile((-1, -1, -1, -1)).expand((*tiled.shape, -1, -1))

    numbers = slots.tile((rows,)).unsqueeze(1).expand((-1, tiled.shape[1]))

    return projected.tile((rows, columns)), angles(sin), angles(cos), numbers, whole(keys), whole(values), tiled, tokens


def angles_of(table, width):
    """The sines or cosines of a head's first half and of its second, for each head: (rows, 1, D / 2)."""
    wide = widen(table)
    if table.shape[1] * 2 == width:
        return wide[:, None, :], wide[:, None, :]
    first, second = ntl.split(ntl.permute(ntl.reshape(wide, (-1, 2, width // 2)), (0, 2, 1)))
    return first[:, None, :], second[:, None, :]


def turned(heads, sines, cosines, width):
    """(rows, heads * D), each head rotated."""
    pairs = ntl.permute(ntl.reshape(heads, (heads.shape[0], -1, 2, width // 2)), (0, 1, 3, 2))
    rotated = ntl.join(*rotate(ntl.split(pairs), sines, cosines))
    return ntl.reshape(ntl.permute(rotated, (0, 1, 3, 2)), heads.shape)


def application(projected, sin, cos, slots, keys, values, output, tokens):
    heads, length, width = keys.source.shape[1:]
    # All is read before the first store, which no read may pass.
    plain = widen(projected)
    rotated = turned(plain, angles_of(sin, width), angles_of(cos, width), width)
    slot, rows, columns = slots[:, None], output.offsets(0)[:, None], output.offsets(1)[None, :]
    head, column, queries = columns // width, columns % width, output.source.shape[1] // width - 2 * heads
    result = ntl.where(head < queries + heads, rotated, plain)
    # A token without a place in the cache must show: it gets a query of NaN.
    output = ntl.where((slot >= 0) & (slot < length), result, float("nan"))
    keys.source[rows // tokens, head - queries, slot, column] = result
    values.source[rows // tokens, head - queries - heads, slot, column] = result


@functools.cache
def make(width=128):
    """The kernel `(input, other, sin, cos, slots, keys, values, output, tokens)`, for heads of D = `width` columns.

    `input`: (rows, K), of `tokens` rows a batch entry; `other`: (K, heads * D); tables: (rows, D / 2 or D); `slots`:
    (rows,); `keys`, `values`: (batch, heads, length, D); `output`: (rows, heads * D).
    """
    constant = {"constexpr": True}
    projected, output = Tensor(2), Tensor(2)
    sin, cos = (Tensor(2, shape_options=(None, constant)) for _ in range(2))
    # Two tokens of a sequence have two slots.
    options = (None, constant, None, constant)
    keys, values = (Tensor(4, shape_options=options, unique_indices=True) for _ in range(2))
    tensors = (projected, sin, cos, Tensor(1), keys, values, output, Tensor(0))
    arrange = functools.partial(arrangement, width=width)
    heads = ninetoothed.make(arrange, application, tensors, kernel_name="rope_heads_into_cache")

    return ninetoothed.fuse(mm.make(), heads, {"projected": "output"}, kernel_name="linear_rope_into_cache")

"""rotated = rope(query), keys[slot] = rope(key) and values[slot] = value, for each token and the slot that it is given.

A program takes one head of keys of one token: the group of query heads that read it, its key and its value. Columns
behind those that rotate stay as they are.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .numeric import widen
from .parameters import flags
from .rope import read, rotate


def arrangement(query, key, value, sin, cos, slots, keys, values, rotated, flag, interleaved):
    tokens, heads = query.shape[1:3]
    width = sin.shape[3] * 2 if interleaved else sin.shape[3]

    def parts(tensor):
        """(batch, tokens, heads, ..., D): all pairs of a row or each half, or of all rows of a group, and the rest."""
        group = (-1,) * (tensor.ndim - 4)
        return tensor.tile(None, None, None, *group, width, loop=-1)

    def places(tensor, width):
        """(batch, heads, length, D): all rows of a head, in tiles of so many columns, for every token."""
        return tensor.tile(None, None, None, width, loop=(2, 3)).permute(0, 2, 1, 3).expand(-1, tokens, -1, -1)

    def angles(table):
        return table.tile(None, None, None, -1, loop=2).expand(-1, -1, heads, -1)

    rows = value.tile(None, None, None, -1)
    numbers = slots.tile(None, 1).unsqueeze(2).expand(-1, -1, heads)
    loaded = parts(query), parts(key), rows, angles(sin), angles(cos), numbers

    return *loaded, places(keys, width), places(values, -1), parts(rotated), flag


def turned(tile, sines, cosines, interleaved):
    """The first parts of a head, rotated, and the others as they are."""
    first = rotate(read(tile, sines, interleaved), sines, cosines)
    if interleaved:
        first = (ntl.reshape(ntl.join(*first), tile.dtype.shape),)
    return *first, *[tile[i] for i in range(1 if interleaved else 2, tile.shape[0])]


def application(query, key, value, sin, cos, slots, keys, values, rotated, interleaved):
    # All is read before the first store, which no read may pass.
    sines, cosines = (widen(sin[0]), widen(sin[-1])), (widen(cos[0]), widen(cos[-1]))
    queries = turned(query, sines, cosines, interleaved)
    row_of_keys = turned(key, sines, cosines, interleaved)
    row, slot = widen(value), slots[0]
    # A token without a place in the cache must show: it gets a query of NaN.
    has_place = (slot >= 0) & (slot < keys.shape[0])
    for i in ntl.static_range(0, key.shape[0]):
        keys[slot, i] = row_of_keys[i]
    values[slot, 0] = row
    for i in ntl.static_range(0, query.shape[0]):
        rotated[i] = ntl.where(has_place, queries[i], float("nan"))


@functools.cache
def make(interleaved=False):
    """The kernel `(query, key, value, sin, cos, slots, keys, values, rotated)`.

    `query`, `rotated`: (batch, tokens, heads, group, D); `key`, `value`: (batch, tokens, heads, D); tables: (batch,
    tokens, 1 or 2, d / 2), of which d columns rotate; `slots`: (batch, tokens); `keys`, `values`: (batch, heads,
    length, D).
    """
    constant = {"constexpr": True}
    query, rotated = (Tensor(5, shape_options=(None, None, constant, constant, constant)) for _ in range(2))
    key, value = (Tensor(4, shape_options=(None, None, constant, constant)) for _ in range(2))
    # Two tokens of a sequence have two slots.
    options = (None, constant, None, constant)
    keys, values = (Tensor(4, shape_options=options, unique_indices=True) for _ in range(2))
    sin, cos = (Tensor(4, shape_options=(None, None, constant, constant)) for _ in range(2))
    tensors = (query, key, value, sin, cos, Tensor(2), keys, values, rotated, *flags(0, interleaved))
    arrange = functools.partial(arrangement, interleaved=interleaved)

    return ninetoothed.make(arrange, application, tensors, kernel_name="rope_into_cache")

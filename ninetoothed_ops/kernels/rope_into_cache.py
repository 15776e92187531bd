"""rotated = rope(query), keys[slot] = rope(key) and values[slot] = value, for each token and the slot that it is given.

A program takes one head of keys of one token: the group of query heads that read it, its key and its value.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .numeric import widen
from .rope import rotate


def arrangement(query, key, value, sin, cos, slots, keys, values, rotated):
    tokens, heads = query.shape[1:3]

    def halves(tensor):
        """(batch, tokens, heads, ..., D): the two halves of a row, or of all rows of a group."""
        group = (-1,) * (tensor.ndim - 4)
        tiled = tensor.tile((1, 1, 1, *group, sin.shape[3])).tile((1, 1, 1, *group, -1))
        tiled.dtype = tiled.dtype.squeeze(tuple(range(tensor.ndim - 1)))
        tiled.dtype.dtype = tiled.dtype.dtype.squeeze((0, 1, 2))

        return tiled

    def places(tensor, width):
        """(batch, heads, length, D): all rows of a head, in tiles of so many columns, for every token."""
        tiled = tensor.tile((1, 1, 1, width)).tile((1, 1, -1, -1)).permute((0, 2, 1, 3))
        tiled = tiled.expand((-1, tokens, -1, -1))
        tiled.dtype = tiled.dtype.squeeze((0, 1))
        tiled.dtype.dtype = tiled.dtype.dtype.squeeze((0, 1, 2))

        return tiled

    def angles(table):
        tiled = table.tile((1, 1, 1, -1)).tile((1, 1, -1, 1)).expand((-1, -1, heads, -1))
        tiled.dtype = tiled.dtype.squeeze((0, 1, 3))
        tiled.dtype.dtype = tiled.dtype.dtype.squeeze((0, 1, 2))

        return tiled

    rows = value.tile((1, 1, 1, -1))
    rows.dtype = rows.dtype.squeeze((0, 1, 2))
    numbers = slots.tile((1, 1)).unsqueeze(2).expand((-1, -1, heads))
    numbers.dtype = numbers.dtype.squeeze(0)
    read = halves(query), halves(key), rows, angles(sin), angles(cos), numbers

    return *read, places(keys, sin.shape[3]), places(values, -1), halves(rotated)


def application(query, key, value, sin, cos, slots, keys, values, rotated):
    # All is read before the first store, which no read may pass.
    sines, cosines = (widen(sin[0]), widen(sin[-1])), (widen(cos[0]), widen(cos[-1]))
    turned = rotate(widen(query[0]), widen(query[1]), sines, cosines)
    even, odd = rotate(widen(key[0]), widen(key[1]), sines, cosines)
    row, slot = widen(value), slots[0]
    # A token without a place in the cache must show: it gets a query of NaN.
    has_place = (slot >= 0) & (slot < keys.shape[0])
    keys[slot, 0], keys[slot, 1] = even, odd
    values[slot, 0] = row
    rotated[0], rotated[1] = [ntl.where(has_place, half, float("nan")) for half in turned]


@functools.cache
def make():
    """The kernel `(query, key, value, sin, cos, slots, keys, values, rotated)`.

    `query`, `rotated`: (batch, tokens, heads, group, D); `key`, `value`: (batch, tokens, heads, D); tables: (batch,
    tokens, 1 or 2, D / 2); `slots`: (batch, tokens); `keys`, `values`: (batch, heads, length, D).
    """
    constant = {"constexpr": True}
    query, rotated = (Tensor(5, shape_options=(None, None, constant, constant, constant)) for _ in range(2))
    key, value = (Tensor(4, shape_options=(None, None, constant, constant)) for _ in range(2))
    keys, values = (Tensor(4, shape_options=(None, constant, None, constant)) for _ in range(2))
    sin, cos = (Tensor(4, shape_options=(None, None, constant, constant)) for _ in range(2))
    tensors = (query, key, value, sin, cos, Tensor(2), keys, values, rotated)

    return ninetoothed.make(arrangement, application, tensors, kernel_name="rope_into_cache")

"""Attend with one query a sequence to keys and values in pages of a cache, which a table of pages finds."""

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor


def heads(tensor):
    """(batch, heads, depth): each program has a vector."""
    return tensor.tile(None, None, -1).squeeze(2)


def arrangement(query, keys, values, table, length, output):
    query, output = heads(query), heads(output)

    def pages(cache):
        """(pages, tokens, heads, depth): each program has all pages of its head, tiles of (tokens, depth)."""
        return cache.tile(None, -1, None, -1, loop=0).squeeze(1, 3).expand(query.shape[0], -1)

    table = table.tile(None, -1).expand(-1, query.shape[1])
    length = length.tile(1).unsqueeze(1).expand(-1, query.shape[1])
    return query, pages(keys), pages(values), table, length, output


def application(query, keys, values, table, length, output):
    size = keys.dtype.shape[0]
    peak, total = float("-inf"), 0.0
    accumulator = ntl.zeros(output.shape, dtype=ntl.float32)

    for n in range((length + size - 1) // size):
        page = table[n]
        scores = ntl.sum(keys[page] * query[None, :], axis=1) * query.shape[0] ** -0.5
        scores = ntl.where(n * size + ntl.arange(0, size) < length, scores, float("-inf"))
        highest = max(peak, ntl.max(scores))
        weights, scale = ntl.exp(scores - highest), ntl.exp(peak - highest)
        total = total * scale + ntl.sum(weights)
        accumulator = accumulator * scale + ntl.sum(weights[:, None] * values[page], axis=0)
        peak = highest

    output = accumulator / total


tensors = tuple(Tensor(ndim) for ndim in (3, 4, 4, 2, 1, 3))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="paged_attention")

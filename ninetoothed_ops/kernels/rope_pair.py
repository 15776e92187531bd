"""A query and a key, of any numbers of heads, rotated as by `rope` in one launch.

Columns behind those that rotate are copied, as by `rope_partial`.
"""

import functools

from . import rope, rope_partial
from .numeric import widen


def arrangement(query, key, sin, cos, query_output, key_output, *others, **layouts):
    """Give each token a program, with all heads of its query and its key; `others` are pairs of rests, then flags."""
    query, sines, cosines, query_output = rope.arrangement(query, sin, cos, query_output, **layouts)
    key, *_, key_output = rope.arrangement(key, sin, cos, key_output, **layouts)
    arranged = (tensor if tensor.ndim == 0 else rope_partial.rest_of_heads(tensor) for tensor in others)

    return query, key, sines, cosines, query_output, key_output, *arranged


def application(query, key, sin, cos, query_output, key_output, interleaved, interleaved_output):
    # All is read before the first store, which no read may pass.
    sines, cosines = (widen(sin[0]), widen(sin[-1])), (widen(cos[0]), widen(cos[-1]))
    queries = rope.rotate(rope.read(query, sines, interleaved), sines, cosines)
    keys = rope.rotate(rope.read(key, sines, interleaved), sines, cosines)
    rope.write(query_output, queries, interleaved_output)
    rope.write(key_output, keys, interleaved_output)


def application_partial(
    query, key, sin, cos, query_output, key_output,
    query_rest, key_rest, query_output_rest, key_output_rest, interleaved, interleaved_output,
):  # fmt: skip
    application(query, key, sin, cos, query_output, key_output, interleaved, interleaved_output)
    query_output_rest, key_output_rest = query_rest, key_rest


@functools.cache
def make(interleaved=True, interleaved_output=None, partial=False):
    """The kernel `(query, key, sin, cos, query_output, key_output)`, of the shapes of `rope.make`.

    Where `partial`, the columns behind those of each but the tables come next, in the same order.
    """
    apply, count = (application_partial, 10) if partial else (application, 6)

    return rope.kernel_of(arrangement, apply, count, interleaved, interleaved_output, "rope_pair")

"""output = softmax(query @ key^T * scale + mask) @ value, for each head; a row that sees nothing gives zeros.

Where there is a `softcap`, the scores before the mask become softcap * tanh(query @ key^T * scale / softcap). Where
there are `sinks`, each row has one more score, of which the weight counts in the sum and no value has a part.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .attention import (
    ADDITIVE_MASK,
    BLOCK_SIZE_M,
    BLOCK_SIZE_N,
    BOOLEAN_MASK,
    FEW_ROWS,
    NO_MASK,
    absent,
    attention,
    blocks,
    cap_of,
    entries,
    masks,
    matrices,
    numbers,
    rows,
)
from .parameters import flags

__all__ = ["ADDITIVE_MASK", "BLOCK_SIZE_M", "BLOCK_SIZE_N", "BOOLEAN_MASK", "FEW_ROWS", "NO_MASK", "make"]


def arrangement(query, key, value, mask, scale, output, masking, is_causal, softcap, lengths, sinks, *flags):
    tiled = rows(query), blocks(key, query), blocks(value, query), masks(mask)
    lengths = entries(lengths, rows(query)) if lengths.ndim else lengths
    sinks = numbers(sinks) if sinks.ndim else sinks

    return *tiled, scale, rows(output), masking, is_causal, softcap, lengths, sinks, *flags


def application(
    query, key, value, mask, scale, output, masking, is_causal,
    softcap, lengths, sinks, is_eager, is_capped, has_lengths, has_sinks,
):  # fmt: skip
    cap, unit = ((scale, softcap), softcap) if is_capped else (None, scale)
    held, sink = lengths if has_lengths else None, sinks if has_sinks else None
    _, total, accumulator = attention(query, key, value, mask, unit, output, masking, is_causal, held, None, cap, sink)

    output = accumulator / (total if is_eager else ntl.where(total == 0.0, 1.0, total))[:, None]


@functools.cache
def make(is_eager=False, is_capped=False, has_lengths=False, has_sinks=False):
    """The kernel `(query, key, value, mask, scale, output, masking, is_causal)`, for a `scale` above zero.

    (batch, heads, length, D); the heads of key and value are equal in number to the query's, or divide it. `mask`:
    (batch, heads, queries, keys), of any strides; it is not read where `masking` is `NO_MASK`. Rows whose scores are
    all -inf give zeros, or NaN where `is_eager`.

    There are as many parameters more as are asked for: `softcap`, a number above zero; `lengths`: (batch,), how many
    keys each batch entry has, of which the rest is not read; `sinks`: (batch, heads, queries, 1), of any strides.
    """
    query, key, value, output = matrices(4)
    softcap, lengths = cap_of(is_capped), Tensor(1) if has_lengths else absent()
    sinks = Tensor(4) if has_sinks else absent()
    asked = flags(0, is_eager, is_capped, has_lengths, has_sinks)
    tensors = query, key, value, Tensor(4), Tensor(0), output, *flags(2), softcap, lengths, sinks, *asked

    return ninetoothed.make(arrangement, application, tensors, kernel_name="sdpa")

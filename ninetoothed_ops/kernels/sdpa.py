"""output = softmax(query @ key^T * scale + mask) @ value, for each head; a row that sees nothing gives zeros."""

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
    attention,
    blocks,
    entries,
    masks,
    rows,
)

__all__ = ["ADDITIVE_MASK", "BLOCK_SIZE_M", "BLOCK_SIZE_N", "BOOLEAN_MASK", "FEW_ROWS", "NO_MASK", "make"]


def arrangement(query, key, value, mask, scale, output, masking, is_causal, is_eager, lengths=None):
    tiled = rows(query), blocks(key, query), blocks(value, query), masks(mask)
    arranged = *tiled, scale, rows(output), masking, is_causal, is_eager

    return arranged if lengths is None else (*arranged, entries(lengths, rows(query)))


def application(query, key, value, mask, scale, output, masking, is_causal, is_eager, lengths=None):
    _, total, accumulator = attention(query, key, value, mask, scale, output, masking, is_causal, lengths)

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

"""factors = kept / (1 - rate), by which dropout multiplies the weights of attention, whatever the blocks of others."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .attention import kept, row_numbers
from .attention_backward import dropped

BLOCK_SIZE = 64


def arrangement(factors, seed, rate):
    return factors.tile(None, None, BLOCK_SIZE, BLOCK_SIZE), seed, rate


def application(factors, seed, rate):
    is_kept = kept(row_numbers(factors)[:, None], factors.offsets(3)[None, :], seed, rate)
    factors = dropped(ntl.full(factors.shape, 1.0, dtype=factors.dtype), is_kept, rate)


@functools.cache
def make():
    """The kernel `(factors, seed, rate)`, with (batch, heads, queries, keys) factors."""
    return ninetoothed.make(arrangement, application, (Tensor(4), Tensor(0), Tensor(0)), kernel_name="sdpa_dropout")

"""Attentions that a user may write: with a bias for each score, with pages, and the gallery's of a window of keys."""

import functools

import torch

import ninetoothed
import ninetoothed.language as ntl
from examples.kernels.attention import sliding_window
from ninetoothed import Tensor, block_size


def with_bias(q, k, v, bias, o, M=block_size(lower_bound=16), N=block_size(lower_bound=16)):
    q, k, v, _, o = sliding_window.arrangement(q, k, v, None, o, M, N)
    return q, k, v, bias.tile(None, None, M, N, loop=3), o


def biased(q, k, v, bias, o):
    peak = ntl.full(q.shape[:1], float("-inf"), dtype=ntl.float32)
    total = ntl.zeros(q.shape[:1], dtype=ntl.float32)
    sums = ntl.zeros(o.shape, dtype=ntl.float32)

    for n in range(k.shape[0]):
        scores = ntl.dot(q, ntl.trans(k[n])) * q.shape[1] ** -0.5 + bias[n]
        higher = ntl.maximum(peak, ntl.max(scores, axis=1))
        weights, scale = ntl.exp(scores - higher[:, None]), ntl.exp(peak - higher)
        total = total * scale + ntl.sum(weights, axis=1)
        sums = sums * scale[:, None] + ntl.dot(weights.to(v.dtype.dtype), v[n])
        peak = higher

    o = sums / total[:, None]


def with_pages(q, keys, values, table, o, M=block_size(lower_bound=16), N=block_size(lower_bound=16)):
    """Give each block of queries all pages, cut into blocks, and which of them are its sequence's.

    keys, values: (pages, heads, tokens, D); table: (batch, pages of a sequence).
    """
    q, o = (each.tile(None, None, M, -1) for each in (q, o))
    pages = (each.tile(None, None, N, -1, loop=(0, 2)) for each in (keys, values))
    keys, values = (each.expand(q.shape[0], -1, q.shape[2], -1) for each in pages)
    return q, keys, values, table.tile(None, -1).unsqueeze(2).unsqueeze(3).expand(-1, *q.shape[1:]), o


def paged(q, keys, values, table, o):
    peak = ntl.full(q.shape[:1], float("-inf"), dtype=ntl.float32)
    total = ntl.zeros(q.shape[:1], dtype=ntl.float32)
    sums = ntl.zeros(o.shape, dtype=ntl.float32)
    parts = keys.shape[1]

    for n in range(table.shape[0] * parts):
        page, part = table[n // parts], n % parts
        scores = ntl.dot(q, ntl.trans(keys[page, part])) * q.shape[1] ** -0.5
        higher = ntl.maximum(peak, ntl.max(scores, axis=1))
        weights, scale = ntl.exp(scores - higher[:, None]), ntl.exp(peak - higher)
        total = total * scale + ntl.sum(weights, axis=1)
        sums = sums * scale[:, None] + ntl.dot(weights.to(values.dtype.dtype), values[page, part])
        peak = higher

    o = sums / total[:, None]


@functools.cache
def make(form):
    if form == "window":
        return sliding_window.kernel
    if form == "paged":
        tensors = (*(Tensor(4) for _ in range(3)), Tensor(2), Tensor(4))
        return ninetoothed.make(with_pages, paged, tensors, kernel_name="own_paged")
    tensors = (*(Tensor(4) for _ in range(3)), Tensor(4), Tensor(4))
    return ninetoothed.make(with_bias, biased, tensors, kernel_name="own_bias")


def reference(form, q, k, v, other):
    """PyTorch's, in float64."""
    wide = [each.double() for each in (q, k, v)]
    if form == "window":
        return sliding_window.reference(*wide, other)
    if form == "paged":
        q, *pages = wide
        wide, other = [q, *(each[other].transpose(1, 2).flatten(2, 3) for each in pages)], torch.zeros(1, 1)
    return torch.nn.functional.scaled_dot_product_attention(*wide, other.double())

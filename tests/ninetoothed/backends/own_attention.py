"""Attentions that a user may write, in plain language: with a bias for each score, and of a window of keys."""

import functools

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size


def tiled(q, k, v, o, M, N):
    q, o = (each.tile(None, None, M, -1) for each in (q, o))
    k, v = (each.tile(None, None, N, -1, loop=2).expand(-1, -1, q.shape[2], -1) for each in (k, v))
    return q, k, v, o


def with_bias(q, k, v, bias, o, M=block_size(lower_bound=16), N=block_size(lower_bound=16)):
    *operands, o = tiled(q, k, v, o, M, N)
    return *operands, bias.tile(None, None, M, N, loop=3), o


def with_window(q, k, v, window, o, M=block_size(lower_bound=16), N=block_size(lower_bound=16)):
    *operands, o = tiled(q, k, v, o, M, N)
    return *operands, window, o


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


def windowed(q, k, v, window, o):
    peak = ntl.full(q.shape[:1], -1e30, dtype=ntl.float32)
    total = ntl.zeros(q.shape[:1], dtype=ntl.float32)
    sums = ntl.zeros(o.shape, dtype=ntl.float32)
    rows, size = q.offsets(2)[:, None], k.dtype.shape[0]
    first = max(ntl.min(rows) - window + 1, 0) // size
    last = ntl.cdiv(min(ntl.max(rows) + 1, k.source.shape[2]), size)

    for n in range(first, last):
        columns = k[n].offsets(2)[None, :]
        is_seen = (columns <= rows) & (columns > rows - window)
        scores = ntl.where(is_seen, ntl.dot(q, ntl.trans(k[n])) * q.shape[1] ** -0.5, float("-inf"))
        higher = ntl.maximum(peak, ntl.max(scores, axis=1))
        weights, scale = ntl.exp(scores - higher[:, None]), ntl.exp(peak - higher)
        total = total * scale + ntl.sum(weights, axis=1)
        sums = sums * scale[:, None] + ntl.dot(weights.to(v.dtype.dtype), v[n])
        peak = higher

    o = sums / total[:, None]


@functools.cache
def make(form):
    constant = {"constexpr": True}
    q, k, v, o = (Tensor(4, shape_options=(None, constant, None, constant)) for _ in range(4))
    arrangement, application, other = {
        "bias": (with_bias, biased, Tensor(4)),
        "window": (with_window, windowed, Tensor(0)),
    }[form]
    return ninetoothed.make(arrangement, application, (q, k, v, other, o), kernel_name=f"own_{form}")


def reference(form, q, k, v, other):
    """PyTorch's, in float64."""
    if form == "window":
        distance = torch.arange(q.shape[2])[:, None] - torch.arange(k.shape[2])
        other = (distance >= 0) & (distance < other)
    else:
        other = other.double()
    return torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), other)

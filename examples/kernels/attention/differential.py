"""Attention with the difference of two softmaxes, so that what both attend to cancels.

o = (softmax(q1 @ k1^T / sqrt(D)) - factor * softmax(q2 @ k2^T / sqrt(D))) @ v

q and k have both halves side by side. Source: Ye and others, "Differential transformer", 2024.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size


def arrangement(q, k, v, factor, o, M=block_size(lower_bound=16, upper_bound=64), N=block_size(lower_bound=16)):
    half = q.shape[3] // 2
    o = o.tile(None, None, M, -1)  # (batch, heads, blocks, 1), (M, columns of v)
    q = q.tile(None, None, M, half, loop=3)  # ..., (2,), (M, half)
    k = k.tile(None, None, N, half, loop=(2, 3)).expand(-1, -1, o.shape[2], -1)  # ..., (blocks, 2), (N, half)
    v = v.tile(None, None, N, -1, loop=2).expand(-1, -1, o.shape[2], -1)
    return q, k, v, factor, o


def attention(q, k, v, part):
    """Attend with one half of q and k."""
    peak = ntl.full(q.dtype.shape[:1], float("-inf"), dtype=ntl.float32)
    total = ntl.zeros(q.dtype.shape[:1], dtype=ntl.float32)
    sums = ntl.zeros((q.dtype.shape[0], v.dtype.shape[1]), dtype=ntl.float32)

    for n in range(k.shape[0]):
        scores = ntl.dot(q[part], ntl.trans(k[n, part])) * q.dtype.shape[1] ** -0.5
        higher = ntl.maximum(peak, ntl.max(scores, axis=1))
        weights, scale = ntl.exp(scores - higher[:, None]), ntl.exp(peak - higher)
        total = total * scale + ntl.sum(weights, axis=1)
        sums = sums * scale[:, None] + ntl.dot(weights.to(v.dtype.dtype), v[n])
        peak = higher

    return sums / total[:, None]


def application(q, k, v, factor, o):
    o = attention(q, k, v, 0) - factor * attention(q, k, v, 1)


tensors = Tensor(4), Tensor(4), Tensor(4), Tensor(0), Tensor(4)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="differential")


def reference(q, k, v, factor):
    first, second = ((a @ b.mT * a.shape[3] ** -0.5).softmax(3) for a, b in zip(q.chunk(2, 3), k.chunk(2, 3)))
    return (first - factor * second) @ v


def differential(q, k, v, factor):
    o = torch.empty_like(v)
    kernel(q, k, v, factor, o)
    return o


def check(device):
    for batch, heads, length, width, dtype in (
        (1, 2, 37, 32, torch.float32),
        (2, 1, 150, 80, torch.float16),
        (1, 1, 1, 16, torch.float32),
    ):
        q, k, v = (torch.randn(batch, length, heads, width, device=device).to(dtype).transpose(1, 2) for _ in range(3))
        yield differential(q, k, v, 0.8), reference(q.double(), k.double(), v.double(), 0.8)


def timed(device):
    q, k, v = (torch.randn(4, 8, 2048, 128, device=device, dtype=torch.float16) for _ in range(3))
    return (q, k, v, 0.8), differential, reference

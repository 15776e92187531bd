"""Causal attention, in which a query sees no more than the last keys of a window.

o[i] = softmax over i - window < j <= i of (q[i] . k[j] / sqrt(D)) @ v[j]

Source: Beltagy, Peters and Cohan, "Longformer: the long-document transformer", 2020. Blocks of keys that no query of a
program sees are not visited.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size


def arrangement(q, k, v, window, o, M=block_size(lower_bound=16), N=block_size(lower_bound=16)):
    q, o = (each.tile(None, None, M, -1) for each in (q, o))  # (batch, heads, blocks, 1), (M, D)
    k, v = (each.tile(None, None, N, -1, loop=2).expand(-1, -1, q.shape[2], -1) for each in (k, v))
    return q, k, v, window, o


def application(q, k, v, window, o):
    peak = ntl.full(q.shape[:1], -1e30, dtype=ntl.float32)  # not -inf: the first block may be hidden from a row
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


tensors = Tensor(4), Tensor(4), Tensor(4), Tensor(0), Tensor(4)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="sliding_window")


def reference(q, k, v, window):
    distance = torch.arange(q.shape[2], device=q.device)[:, None] - torch.arange(k.shape[2], device=q.device)
    return F.scaled_dot_product_attention(q, k, v, (distance >= 0) & (distance < window))


def sliding_window(q, k, v, window):
    o = torch.empty_like(q)
    kernel(q, k, v, window, o)
    return o


def check(device):
    for batch, heads, length, width, window, dtype in (
        (1, 2, 70, 16, 5, torch.float32),
        (2, 3, 300, 40, 100, torch.float16),
        (1, 1, 130, 8, 1, torch.float32),
        (0, 2, 5, 8, 3, torch.float32),
    ):
        shape = batch, length, heads, width
        q, k, v = (torch.randn(*shape, device=device).to(dtype).transpose(1, 2) for _ in range(3))
        yield sliding_window(q, k, v, window), reference(q.double(), k.double(), v.double(), window)


def timed(device):
    q, k, v = (torch.randn(1, 16, 8192, 128, device=device, dtype=torch.float16) for _ in range(3))
    return (q, k, v, 1024), sliding_window, reference

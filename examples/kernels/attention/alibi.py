"""Causal attention, whose scores fall with the distance of a key, by a slope of each head.

o[i] = softmax over j <= i of (q[i] . k[j] / sqrt(D) - slope * (i - j)) @ v[j]

Source: Press, Smith and Lewis, "Train short, test long: attention with linear biases", 2021.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size


def arrangement(q, k, v, slopes, o, M=block_size(lower_bound=16), N=block_size(lower_bound=16)):
    q, o = (each.tile(None, None, M, -1) for each in (q, o))  # (batch, heads, blocks, 1), (M, D)
    k, v = (each.tile(None, None, N, -1, loop=2).expand(-1, -1, q.shape[2], -1) for each in (k, v))
    slopes = slopes.tile(None)[None, :, None, None].expand(q.shape[0], -1, q.shape[2], -1)
    return q, k, v, slopes, o


def application(q, k, v, slopes, o):
    peak = ntl.full(q.shape[:1], float("-inf"), dtype=ntl.float32)
    total = ntl.zeros(q.shape[:1], dtype=ntl.float32)
    sums = ntl.zeros(o.shape, dtype=ntl.float32)
    rows = q.offsets(2)[:, None]
    last = min(ntl.max(q.offsets(2)) + 1, k.source.shape[2])  # of which some row sees the key before

    for n in range(ntl.cdiv(last, k.dtype.shape[0])):
        columns = k[n].offsets(2)[None, :]
        scores = ntl.dot(q, ntl.trans(k[n])) * q.shape[1] ** -0.5 - slopes * (rows - columns)
        scores = ntl.where(columns <= rows, scores, float("-inf"))
        higher = ntl.maximum(peak, ntl.max(scores, axis=1))
        weights, scale = ntl.exp(scores - higher[:, None]), ntl.exp(peak - higher)
        total = total * scale + ntl.sum(weights, axis=1)
        sums = sums * scale[:, None] + ntl.dot(weights.to(v.dtype.dtype), v[n])
        peak = higher

    o = sums / total[:, None]


tensors = Tensor(4), Tensor(4), Tensor(4), Tensor(1), Tensor(4)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="alibi")


def reference(q, k, v, slopes):
    distance = torch.arange(q.shape[2], device=q.device)[:, None] - torch.arange(k.shape[2], device=q.device)
    bias = torch.where(distance >= 0, -slopes[:, None, None] * distance, -torch.inf).to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, bias)


def alibi(q, k, v, slopes):
    o = torch.empty_like(q)
    kernel(q, k, v, slopes, o)
    return o


def check(device):
    for batch, heads, length, width, dtype in (
        (1, 2, 37, 16, torch.float32),
        (2, 3, 150, 40, torch.float16),
        (1, 1, 1, 8, torch.float32),
        (0, 2, 5, 8, torch.float32),
    ):
        shape = batch, length, heads, width
        q, k, v = (torch.randn(*shape, device=device).to(dtype).transpose(1, 2) for _ in range(3))
        slopes = 2.0 ** -torch.arange(1, heads + 1, device=device)
        yield alibi(q, k, v, slopes), reference(q.double(), k.double(), v.double(), slopes.double())


def timed(device):
    q, k, v = (torch.randn(4, 16, 2048, 128, device=device, dtype=torch.float16) for _ in range(3))
    return (q, k, v, 2.0 ** (-torch.arange(1, 17, device=device) / 2)), alibi, reference

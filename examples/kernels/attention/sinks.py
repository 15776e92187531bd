"""Causal attention with a sink for each head: one more score, which has a weight and no value.

o[i] = sum over j <= i of exp(s[i, j]) v[j] / (exp(sink) + sum over j <= i of exp(s[i, j]))

With s[i, j] = q[i] . k[j] / sqrt(D). The sum begins with the sink, where it else begins with nothing.
`ninetoothed_ops.sdpa` takes sinks, too. Source: Xiao and others, "Efficient streaming language models with attention
sinks", 2023; of this form, OpenAI, "gpt-oss", 2025.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size


def arrangement(q, k, v, sinks, o, M=block_size(lower_bound=16), N=block_size(lower_bound=16)):
    q, o = (each.tile(None, None, M, -1) for each in (q, o))  # (batch, heads, blocks, 1), (M, D)
    k, v = (each.tile(None, None, N, -1, loop=2).expand(-1, -1, q.shape[2], -1) for each in (k, v))
    sinks = sinks.tile(None)[None, :, None, None].expand(q.shape[0], -1, q.shape[2], -1)
    return q, k, v, sinks, o


def application(q, k, v, sinks, o):
    peak = ntl.full(q.shape[:1], sinks, dtype=ntl.float32)
    total = ntl.full(q.shape[:1], 1.0, dtype=ntl.float32)
    sums = ntl.zeros(o.shape, dtype=ntl.float32)
    rows = q.offsets(2)[:, None]
    last = min(ntl.max(rows) + 1, k.source.shape[2])

    for n in range(ntl.cdiv(last, k.dtype.shape[0])):
        is_seen = k[n].offsets(2)[None, :] <= rows
        scores = ntl.where(is_seen, ntl.dot(q, ntl.trans(k[n])) * q.shape[1] ** -0.5, float("-inf"))
        higher = ntl.maximum(peak, ntl.max(scores, axis=1))
        weights, scale = ntl.exp(scores - higher[:, None]), ntl.exp(peak - higher)
        total = total * scale + ntl.sum(weights, axis=1)
        sums = sums * scale[:, None] + ntl.dot(weights.to(v.dtype.dtype), v[n])
        peak = higher

    o = sums / total[:, None]


tensors = Tensor(4), Tensor(4), Tensor(4), Tensor(1), Tensor(4)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="sinks")


def reference(q, k, v, sinks):
    scores = q @ k.mT * q.shape[3] ** -0.5
    scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    sinks = sinks[:, None, None].expand(*scores.shape[:3], 1).to(q.dtype)
    return torch.cat([scores, sinks], 3).softmax(3)[..., :-1] @ v


def sinks(q, k, v, sinks):
    o = torch.empty_like(q)
    kernel(q, k, v, sinks, o)
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
        logits = 3 * torch.randn(heads, device=device)
        yield sinks(q, k, v, logits), reference(q.double(), k.double(), v.double(), logits.double())


def timed(device):
    q, k, v = (torch.randn(4, 16, 2048, 64, device=device, dtype=torch.float16) for _ in range(3))
    return (q, k, v, torch.randn(16, device=device)), sinks, reference

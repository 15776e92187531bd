"""A step of decoding with multi-head latent attention: all heads share the keys, which are the values, too.

o[h] = softmax over j < length of ((q[h] . c[j] + p[h] . r[j]) * scale) @ c[j]

c are latents of the tokens before, r their rotated parts; the matrices that would make keys and values of them are in q
and in what follows. Source: DeepSeek-AI, "DeepSeek-V2: a strong, economical and efficient mixture-of-experts language
model", 2024.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size


def arrangement(
    q, p, c, r, lengths, scale, o, H=block_size(lower_bound=16, upper_bound=16), N=block_size(upper_bound=64)
):
    q, p, o = (each.tile(None, H, -1) for each in (q, p, o))  # (batch, blocks of heads, 1), (H, D)
    c, r = (each.tile(None, N, -1, loop=1).expand(-1, q.shape[1], -1) for each in (c, r))  # ..., (blocks,), (N, D)
    return q, p, c, r, lengths.tile(None)[:, None, None].expand(-1, q.shape[1], -1), scale, o


def application(q, p, c, r, lengths, scale, o):
    peak = ntl.full(q.shape[:1], float("-inf"), dtype=ntl.float32)
    total = ntl.zeros(q.shape[:1], dtype=ntl.float32)
    sums = ntl.zeros(o.shape, dtype=ntl.float32)

    for n in range(ntl.cdiv(lengths, c.dtype.shape[0])):
        scores = (ntl.dot(q, ntl.trans(c[n])) + ntl.dot(p, ntl.trans(r[n]))) * scale
        scores = ntl.where(c[n].offsets(1)[None, :] < lengths, scores, float("-inf"))
        higher = ntl.maximum(peak, ntl.max(scores, axis=1))
        weights, decay = ntl.exp(scores - higher[:, None]), ntl.exp(peak - higher)
        total = total * decay + ntl.sum(weights, axis=1)
        sums = sums * decay[:, None] + ntl.dot(weights.to(c.dtype.dtype), c[n])
        peak = higher

    o = sums / total[:, None]


tensors = Tensor(3), Tensor(3), Tensor(3), Tensor(3), Tensor(1), Tensor(0), Tensor(3)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="multi_latent")


def reference(q, p, c, r, lengths, scale):
    scores = (q @ c.mT + p @ r.mT) * scale
    is_hidden = torch.arange(c.shape[1], device=q.device) >= lengths[:, None, None]
    return scores.masked_fill(is_hidden, -torch.inf).softmax(2) @ c


def multi_latent(q, p, c, r, lengths, scale):
    o = torch.empty_like(q)
    kernel(q, p, c, r, lengths, scale, o)
    return o


def operands(batch, heads, length, latent, rotated, dtype, device):
    q, p = (torch.randn(batch, heads, width, device=device).to(dtype) for width in (latent, rotated))
    both = torch.randn(batch, length, latent + rotated, device=device).to(dtype)  # a row of the cache
    return q, p, both[..., :latent], both[..., latent:]


def check(device):
    for batch, heads, length, latent, rotated, dtype in (
        (2, 5, 70, 40, 16, torch.float32),
        (3, 20, 200, 64, 8, torch.float16),
        (1, 1, 3, 16, 16, torch.float32),
    ):
        tensors = operands(batch, heads, length, latent, rotated, dtype, device)
        lengths = torch.randint(1, length + 1, (batch,), device=device)
        expected = reference(*(each.double() for each in tensors), lengths, 0.1)
        yield multi_latent(*tensors, lengths, 0.1), expected


def timed(device):
    lengths = torch.full((64,), 4000, device=device)
    return (*operands(64, 16, 4096, 512, 64, torch.bfloat16, device), lengths, 576**-0.5), multi_latent, reference

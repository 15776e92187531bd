"""Attention of one query a sequence to keys and values in pages of a cache.

o[b, h] = softmax over j < length[b] of (q[b, h] . k[j, h] / sqrt(D)) @ v[j, h]

Token j of sequence b is in page table[b, j // tokens of a page]. Source: Kwon and others, "Efficient memory management
for large language model serving with PagedAttention", 2023.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor


def arrangement(query, keys, values, table, length, output):
    query, output = (each.tile(None, None, -1).squeeze(2) for each in (query, output))  # (batch, heads), (D,)

    def pages(cache):
        """(pages, tokens, heads, D): each program has all pages of its head, tiles of (tokens, D)."""
        return cache.tile(None, -1, None, -1, loop=0).squeeze(1, 3).expand(query.shape[0], -1)

    table = table.tile(None, -1).expand(-1, query.shape[1])
    length = length.tile(None).unsqueeze(1).expand(-1, query.shape[1])
    return query, pages(keys), pages(values), table, length, output


def application(query, keys, values, table, length, output):
    size = keys.dtype.shape[0]
    peak, total = float("-inf"), 0.0
    sums = ntl.zeros(output.shape, dtype=ntl.float32)

    for n in range(ntl.cdiv(length, size)):
        page = table[n]
        scores = ntl.sum(keys[page] * query[None, :].to(ntl.float32), axis=1) * query.shape[0] ** -0.5
        scores = ntl.where(n * size + ntl.arange(0, size) < length, scores, float("-inf"))
        higher = max(peak, ntl.max(scores))
        weights, scale = ntl.exp(scores - higher), ntl.exp(peak - higher)
        total = total * scale + ntl.sum(weights)
        sums = sums * scale + ntl.sum(weights[:, None] * values[page], axis=0)
        peak = higher

    output = sums / total


tensors = Tensor(3), Tensor(4), Tensor(4), Tensor(2), Tensor(1), Tensor(3)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="paged_attention")


def reference(query, keys, values, table, length):
    k, v = (cache[table].flatten(1, 2).transpose(1, 2) for cache in (keys, values))
    is_own = torch.arange(k.shape[2], device=k.device) < length[:, None]
    return F.scaled_dot_product_attention(query[:, :, None], k, v, is_own[:, None, None])[:, :, 0]


def paged_attention(query, keys, values, table, length):
    output = torch.empty_like(query)
    kernel(query, keys, values, table, length, output)
    return output


def operands(batch, heads, pages, size, width, dtype, device):
    query = torch.randn(batch, 2 * heads, width, device=device).to(dtype)[:, ::2]
    keys, values = (torch.randn(pages, size, heads, width, device=device).to(dtype) for _ in range(2))
    table = torch.randint(0, pages, (batch, pages // batch), device=device)
    return query, keys, values, table, torch.randint(1, pages // batch * size + 1, (batch,), device=device)


def check(device):
    for shape, dtype in (((3, 2, 11, 12, 40), torch.float32), ((2, 3, 9, 16, 64), torch.float16)):
        query, keys, values, *where = operands(*shape, dtype, device)
        expected = reference(query.double(), keys.double(), values.double(), *where)
        yield paged_attention(query, keys, values, *where), expected


def timed(device):
    *rest, table, length = operands(64, 16, 8192, 16, 128, torch.float16, device)
    return (*rest, table, torch.full_like(length, 2000)), paged_attention, reference

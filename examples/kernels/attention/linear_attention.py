"""Causal attention without a softmax, whose cost grows with the length alone.

o[i] = f(q[i]) @ S[i] / (f(q[i]) . z[i]),  S[i] = sum over j <= i of f(k[j])^T v[j],  z[i] = sum over j <= i of f(k[j])

With f(x) = elu(x) + 1. A program goes through the chunks of a head: within a chunk by a product, as attention, and what
was before by the state, S and z. Source: Katharopoulos and others, "Transformers are RNNs", 2020.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

CHUNK = 64


def arrangement(q, k, v, o):
    return tuple(each.tile(None, None, CHUNK, -1, loop=2) for each in (q, k, v, o))  # (..., (chunks,), (CHUNK, D)


def feature(x):
    return ntl.where(x > 0, x + 1, ntl.exp(x.to(ntl.float32)))


def application(q, k, v, o):
    state = ntl.zeros((k.dtype.shape[1], v.dtype.shape[1]), dtype=ntl.float32)
    z = ntl.zeros((k.dtype.shape[1],), dtype=ntl.float32)
    place = ntl.arange(0, CHUNK)
    is_before = place[None, :] <= place[:, None]

    for n in range(q.shape[0]):
        dtype = v.dtype.dtype  # that of products, whose sums are of float32
        queries, keys = feature(q[n]).to(dtype), feature(k[n]).to(dtype)
        weights = ntl.where(is_before, ntl.dot(queries, ntl.trans(keys)), 0.0)
        total = ntl.sum(weights, axis=1) + ntl.sum(queries * z[None, :], axis=1)
        o[n] = (ntl.dot(weights.to(dtype), v[n]) + ntl.dot(queries, state.to(dtype))) / total[:, None]
        state += ntl.dot(ntl.trans(keys), v[n])
        z += ntl.sum(keys.to(ntl.float32), axis=0)


known = (None, None, None, {"constexpr": True})
tensors = tuple(Tensor(4, shape_options=known) for _ in "qkvo")
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="linear_attention")


def reference(q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    weights = (q @ k.mT).tril()
    return weights @ v / weights.sum(3, keepdim=True)


def linear_attention(q, k, v):
    o = torch.empty_like(v)
    kernel(q, k, v, o)
    return o


def check(device):
    for batch, heads, length, width, inner, dtype in (
        (1, 2, 70, 16, 24, torch.float32),
        (2, 1, 300, 40, 33, torch.float16),
        (1, 1, 1, 8, 8, torch.float32),
        (2, 1, 0, 8, 8, torch.float32),
    ):
        q, k = (torch.randn(batch, length, heads, width, device=device).to(dtype).transpose(1, 2) for _ in range(2))
        v = torch.randn(batch, heads, length, inner, device=device).to(dtype)
        yield linear_attention(q, k, v), reference(q.double(), k.double(), v.double())


def timed(device):
    q, k, v = (torch.randn(8, 16, 4096, 64, device=device, dtype=torch.bfloat16) for _ in range(3))
    return (q, k, v), linear_attention, reference

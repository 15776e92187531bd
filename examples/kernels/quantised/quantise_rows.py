"""Rows as int8, with a scale each.

scale[i] = max over j of |x[i, j]| / 127,   q[i, j] = x[i, j] / scale[i], rounded to the nearest, of two to the even one

Source: Dettmers and others, "LLM.int8(): 8-bit matrix multiplication for transformers at scale", 2022.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(x, q, scale):
    return *arrange.rows(x, q), scale.tile(None)


def application(x, q, scale):
    wide = x.to(ntl.float32)
    scale = ntl.maximum(ntl.max(ntl.abs(wide)), 1e-30) / 127
    q = ntl.libdevice.rint(wide / scale).to(ntl.int8)


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2), Tensor(1)), kernel_name="quantise_rows")


def reference(x):
    scale = x.abs().amax(1).clamp(min=1e-30) / 127
    return (x / scale[:, None]).round().to(torch.int8), scale


def quantise_rows(x):
    q, scale = torch.empty_like(x, dtype=torch.int8), torch.empty(len(x), device=x.device)
    kernel(x, q, scale)
    return q, scale


def check(device):
    for rows, columns, dtype in ((3, 33, torch.float32), (1, 300, torch.float16), (0, 5, torch.float32)):
        x = torch.randn(rows, 2 * columns, device=device).to(dtype)[:, ::2]
        q, scale = quantise_rows(x)
        expected, scales = reference(x.double())
        yield q, expected
        yield scale, scales
    x = torch.zeros(2, 9, device=device)
    yield quantise_rows(x)[0], x.to(torch.int8)


def timed(device):
    x = torch.randn(8192, 4096, device=device)
    return (x,), quantise_rows, reference

"""A product of float8 matrices, with one scale for each.

c[m, n] = scale_a * scale_b * sum over k of a[m, k] * b[k, n]

Source: Micikevicius and others, "FP8 formats for deep learning", 2022.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed_ops.kernels import mm


def arrangement(a, b, scale_a, scale_b, c):
    a, b, c = mm.arrangement(a, b, c)
    return a, b, scale_a, scale_b, c


def application(a, b, scale_a, scale_b, c):
    total = ntl.zeros(c.shape, dtype=ntl.float32)

    for k in range(a.shape[0]):
        total += ntl.dot(a[k], b[k])

    c = total * (scale_a * scale_b)


tensors = Tensor(2), Tensor(2), Tensor(0), Tensor(0), Tensor(2)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="fp8_product")


def quantised(x):
    """A matrix in float8, as large as can be, and the scale that makes it the old one."""
    scale = x.abs().amax() / 448
    return (x / scale).to(torch.float8_e4m3fn), scale.float()


def fp8_product(a, b, scale_a, scale_b, dtype=torch.bfloat16):
    c = torch.empty(a.shape[0], b.shape[1], device=a.device, dtype=dtype)
    kernel(a, b, scale_a, scale_b, c)
    return c


def check(device):
    for m, n, k, dtype in ((20, 33, 50, torch.float32), (70, 16, 130, torch.bfloat16), (1, 40, 300, torch.float16)):
        (a, scale_a), (b, scale_b) = (quantised(torch.randn(*s, device=device)) for s in ((m, k), (n, k)))
        expected = (a.double() @ b.T.double()) * scale_a.double() * scale_b.double()
        yield fp8_product(a, b.T, scale_a, scale_b, dtype), expected


def timed(device):
    (a, scale_a), (b, scale_b) = (quantised(torch.randn(4096, 4096, device=device)) for _ in range(2))
    return (a, b.T, scale_a, scale_b), fp8_product, lambda *args: torch._scaled_mm(*args, out_dtype=torch.bfloat16)

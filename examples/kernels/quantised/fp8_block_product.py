"""A product of float8 matrices, with a scale for each 1 by 128 elements of one and each 128 by 128 of the other.

c[m, n] = sum over blocks g of scale_a[m, g] * scale_b[n // 128, g] * sum over k of block g of a[m, k] * b[n, k]

Source: DeepSeek-AI, "DeepSeek-V3 technical report", 2024. Each block's sum is scaled in float32 before it is added.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size

GROUP = 128


def arrangement(a, b, scale_a, scale_b, c, M=block_size(lower_bound=16, upper_bound=128)):
    c = c.tile(M, GROUP)
    a = a.tile(M, GROUP, loop=1).expand(-1, c.shape[1])
    b = b.tile(GROUP, GROUP, loop=1).permute(1, 0).expand(c.shape[0], -1)
    scale_a = scale_a.tile(M, None, loop=1).expand(-1, c.shape[1])
    scale_b = scale_b.tile(None, None, loop=1).permute(1, 0).expand(c.shape[0], -1)
    return a, b, scale_a, scale_b, c


def application(a, b, scale_a, scale_b, c):
    total = ntl.zeros(c.shape, dtype=ntl.float32)

    for k in range(a.shape[0]):
        total += ntl.dot(a[k], ntl.trans(b[k])) * (scale_a[k] * scale_b[k])[:, None]

    c = total


tensors = Tensor(2), Tensor(2), Tensor(2), Tensor(2), Tensor(2)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="fp8_block_product")


def widened(x, scale, rows):
    """A matrix with its scales, in their type; a scale is of so many rows."""
    scale = scale.repeat_interleave(rows, 0)[: x.shape[0]].repeat_interleave(GROUP, 1)[:, : x.shape[1]]
    return x.to(scale.dtype) * scale


def reference(a, b, scale_a, scale_b):
    return (widened(a, scale_a, 1) @ widened(b, scale_b, GROUP).T).to(torch.bfloat16)


def fp8_block_product(a, b, scale_a, scale_b, dtype=torch.bfloat16):
    c = torch.empty(a.shape[0], b.shape[0], device=a.device, dtype=dtype)
    kernel(a, b, scale_a, scale_b, c)
    return c


def operands(m, n, k, device):
    a, b = (torch.randn(rows, k, device=device).to(torch.float8_e4m3fn) for rows in (m, n))
    groups = -(-k // GROUP)
    return a, b, torch.rand(m, groups, device=device), torch.rand(-(-n // GROUP), groups, device=device)


def check(device):
    for m, n, k, dtype in ((5, 140, 256, torch.float32), (70, 40, 130, torch.bfloat16), (33, 128, 100, torch.float32)):
        a, b, *scales = operands(m, n, k, device)
        scale_a, scale_b = (scale.double() for scale in scales)
        expected = widened(a, scale_a, 1) @ widened(b, scale_b, GROUP).T
        yield fp8_block_product(a, b, *scales, dtype), expected


def timed(device):
    return operands(4096, 4096, 4096, device), fp8_block_product, reference

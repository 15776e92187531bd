"""A product with weights of four bits, two of them in a byte, and a scale for each group of 128 along a row.

c[m, n] = sum over k of a[m, k] * scale[n, k // 128] * (nibble k of row n - 8)

Even k is the low nibble of its byte, odd k the high one. Source: Frantar and others, "GPTQ: accurate post-training
quantization for generative pre-trained transformers", 2022.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size

GROUP = 128


def arrangement(a, weight, scale, c, M=block_size(lower_bound=16, upper_bound=64), N=block_size(upper_bound=64)):
    c = c.tile(M, N)
    a = a.tile(M, GROUP, loop=1).expand(-1, c.shape[1])
    weight = weight.tile(N, GROUP // 2, loop=1).permute(1, 0).expand(c.shape[0], -1)
    scale = scale.tile(N, None, loop=1).permute(1, 0).expand(c.shape[0], -1)
    return a, weight, scale, c


def application(a, weight, scale, c):
    total = ntl.zeros(c.shape, dtype=ntl.float32)

    for k in range(a.shape[0]):
        low, high = weight[k] & 15, weight[k] >> 4
        nibbles = ntl.interleave(low, high).to(ntl.int8) - 8  # (N, GROUP)
        total += ntl.dot(a[k], ntl.trans(nibbles.to(a.dtype.dtype))) * scale[k][None, :]

    c = total


kernel = ninetoothed.make(
    arrangement, application, (Tensor(2), Tensor(2), Tensor(2), Tensor(2)), kernel_name="int4_product"
)


def unpacked(weight, scale):
    """The weights as numbers of the scale's type, (rows, columns)."""
    nibbles = torch.stack([weight & 15, weight >> 4], dim=2).flatten(1).to(scale.dtype) - 8
    return nibbles * scale.repeat_interleave(GROUP, 1)


def int4_product(a, weight, scale):
    c = a.new_empty(a.shape[0], weight.shape[0])
    kernel(a, weight, scale, c)
    return c


def check(device):
    for m, n, groups, dtype in ((5, 20, 2, torch.float32), (70, 40, 1, torch.float16), (17, 33, 3, torch.bfloat16)):
        a = torch.randn(GROUP * groups, m, device=device).to(dtype).T
        weight = torch.randint(0, 256, (n, GROUP // 2 * groups), device=device, dtype=torch.uint8)
        scale = torch.rand(n, groups, device=device).to(dtype)
        yield int4_product(a, weight, scale), a.double() @ unpacked(weight, scale.double()).T


def timed(device):
    a = torch.randn(16, 8192, device=device, dtype=torch.float16)
    weight = torch.randint(0, 256, (8192, 4096), device=device, dtype=torch.uint8)
    scale = torch.rand(8192, 64, device=device, dtype=torch.float16)
    return (a, weight, scale), int4_product, lambda a, weight, scale: a @ unpacked(weight, scale).T

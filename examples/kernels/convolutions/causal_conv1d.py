"""A causal convolution of each channel by itself, and SiLU of it, as in Mamba.

z[b, d, t] = bias[d] + sum over k of weight[d, k] * x[b, d, t - (K - 1) + k],   y = z * sigmoid(z)

Source: Gu and Dao, "Mamba: linear-time sequence modeling with selective state spaces", 2023.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange, block_size


def arrangement(x, weight, bias, y, BLOCK=block_size()):
    width = weight.shape[1]
    x = arrange.windows(x.pad(((0, 0), (0, 0), (width - 1, 0))), width, block=BLOCK)  # (b, d, blocks), (K,), (BLOCK,)
    y = y.tile(None, None, BLOCK)
    weight = weight.tile(None, -1).unsqueeze(0).expand(*y.shape[:1], -1, y.shape[2])
    bias = bias.tile(None)[None, :, None].expand(y.shape[0], -1, y.shape[2])
    return x, weight, bias, y


def application(x, weight, bias, y):
    total = ntl.full(y.shape, bias, dtype=ntl.float32)

    for k in range(weight.shape[0]):
        total += x[k].to(ntl.float32) * weight[k]

    y = total * ntl.sigmoid(total)


taps = (None, {"constexpr": True})  # known when compiling: the loop is unrolled
tensors = Tensor(3), Tensor(2, shape_options=taps), Tensor(1), Tensor(3)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="causal_conv1d")


def reference(x, weight, bias):
    padded = F.pad(x, (weight.shape[1] - 1, 0))
    return F.silu(F.conv1d(padded, weight[:, None], bias, groups=x.shape[1]))


def causal_conv1d(x, weight, bias):
    y = torch.empty_like(x)
    kernel(x, weight, bias, y)
    return y


def check(device):
    for batch, channels, length, width in ((2, 3, 100, 4), (1, 5, 1, 3), (3, 2, 70, 1), (0, 4, 9, 4)):
        x = torch.randn(batch, length, channels, device=device).mT  # channels last, as a projection leaves them
        weight, bias = torch.randn(channels, width, device=device), torch.randn(channels, device=device)
        yield causal_conv1d(x, weight, bias), reference(x.double(), weight.double(), bias.double())
    half = [torch.randn(*shape, device=device, dtype=torch.bfloat16) for shape in ((2, 3, 65), (3, 4), (3,))]
    yield causal_conv1d(*half), reference(*(each.double() for each in half))


def timed(device):
    shapes = (8, 2048, 4096), (2048, 4), (2048,)
    return tuple(torch.randn(*shape, device=device, dtype=torch.float16) for shape in shapes), causal_conv1d, reference

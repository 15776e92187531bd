"""A convolution over one dimension.

y[n, k, p] = sum over c, r of x[n, c, p * stride + r - padding] * weight[k, c, r]

Source: an implicit product, as cuDNN's (Chetlur and others, "cuDNN: efficient primitives for deep learning", 2014).
"""

import torch
import torch.nn.functional as F

import ninetoothed
from ninetoothed import Symbol, Tensor, arrange
from ninetoothed_ops.kernels import mm

STRIDE, PADDING = Symbol("STRIDE", constexpr=True), Symbol("PADDING", constexpr=True)


def arrangement(x, weight, y):
    """Windows as the rows of a matrix, filters as the columns of another: the rest is a product's."""
    x = arrange.windows(x, weight.shape[1:], stride=(1, STRIDE), padding=(0, PADDING))  # (n, 1, p), (c, r)
    x = x.squeeze(1).ravel().flatten(2).flatten(0, 2)  # (n * p, c * r)
    weight = weight.flatten(1).permute(1, 0)  # (c * r, k)
    y = y.permute(0, 2, 1).flatten(0, 2)  # (n * p, k)
    return mm.arrangement(x, weight, y)


kernel = ninetoothed.make(arrangement, mm.application, (Tensor(3), Tensor(3), Tensor(3)), kernel_name="conv1d")


def conv1d(x, weight, stride=1, padding=0):
    length = (x.shape[2] + 2 * padding - weight.shape[2]) // stride + 1
    y = x.new_empty(x.shape[0], weight.shape[0], length)
    kernel(x, weight, y, STRIDE=stride, PADDING=padding)
    return y


def check(device):
    for n, c, length, k, r, stride, padding in ((2, 5, 33, 7, 3, 1, 1), (3, 4, 20, 3, 5, 2, 0), (0, 2, 9, 3, 3, 1, 1)):
        x, weight = torch.randn(n, c, length, device=device), torch.randn(k, c, r, device=device)
        yield conv1d(x, weight, stride, padding), F.conv1d(x.double(), weight.double(), None, stride, padding)
    x = torch.randn(40, 6, 2, device=device, dtype=torch.float16).permute(2, 1, 0)
    weight = torch.randn(8, 6, 4, device=device, dtype=torch.float16)
    yield conv1d(x, weight, 3, 2), F.conv1d(x.double(), weight.double(), None, 3, 2)


def timed(device):
    x = torch.randn(16, 256, 4096, device=device, dtype=torch.float16)
    weight = torch.randn(256, 256, 3, device=device, dtype=torch.float16)
    return (x, weight), lambda x, w: conv1d(x, w, padding=1), lambda x, w: F.conv1d(x, w, padding=1)

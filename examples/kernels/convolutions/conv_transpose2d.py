"""A transposed convolution: each element of x spreads its filter over y.

y[n, k, p, q] = sum over c, i, j of x[n, c, i, j] * weight[c, k, p + padding - stride * i, q + padding - stride * j]

It is a convolution of x, with zeros put between its elements, and of the filters, turned around: `pad` and `[::-1]`.

Source: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016.
"""

import torch
import torch.nn.functional as F

import ninetoothed
from ninetoothed import Symbol, Tensor, arrange
from ninetoothed_ops.kernels import mm

STRIDE, PADDING = Symbol("STRIDE", constexpr=True), Symbol("PADDING", constexpr=True)
CONSTANT = {"constexpr": True}


def arrangement(x, weight, y):
    height, width = ((size - 1) * STRIDE + 1 for size in x.shape[2:])
    gap = (0, STRIDE - 1)
    x = x[:, :, :, None, :, None].pad(((0, 0), (0, 0), (0, 0), gap, (0, 0), gap))
    x = x.flatten(4).flatten(2, 4)[:, :, :height, :width]  # zeros between elements
    down, across = (size - 1 - PADDING for size in weight.shape[2:])
    x = x.pad(((0, 0), (0, 0), (down, down), (across, across)))
    x = arrange.windows(x, (weight.shape[0], *weight.shape[2:]))  # (n, 1, p, q), (c, r, s)
    x = x.squeeze(1).ravel().flatten(3).flatten(0, 3)  # (n * p * q, c * r * s)
    weight = weight[:, :, ::-1, ::-1].permute(0, 2, 3, 1).flatten(0, 3)  # (c * r * s, k)
    y = y.permute(0, 2, 3, 1).flatten(0, 3)
    return mm.arrangement(x, weight, y)


images = (None, *[CONSTANT] * 3)
tensors = Tensor(4, shape_options=images), Tensor(4, shape_options=CONSTANT), Tensor(4, shape_options=images)
kernel = ninetoothed.make(arrangement, mm.application, tensors, kernel_name="conv_transpose2d")


def conv_transpose2d(x, weight, stride=1, padding=0):
    sizes = ((size - 1) * stride + width - 2 * padding for size, width in zip(x.shape[2:], weight.shape[2:]))
    y = x.new_empty(x.shape[0], weight.shape[1], *sizes)
    kernel(x, weight, y, STRIDE=stride, PADDING=padding)
    return y


def check(device):
    for n, c, shape, k, widths, stride, padding in (
        (2, 3, (5, 7), 4, (3, 3), 1, 0),
        (1, 5, (4, 6), 3, (4, 2), 2, 1),
        (2, 2, (3, 1), 5, (3, 5), 3, 2),
    ):
        x, weight = torch.randn(n, c, *shape, device=device), torch.randn(c, k, *widths, device=device)
        expected = F.conv_transpose2d(x.double(), weight.double(), None, stride, padding)
        yield conv_transpose2d(x, weight, stride, padding), expected


def timed(device):
    x = torch.randn(8, 128, 32, 32, device=device, dtype=torch.float16)
    weight = torch.randn(128, 64, 4, 4, device=device, dtype=torch.float16)
    eager = lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1)  # noqa: E731
    return (x, weight), lambda x, w: conv_transpose2d(x, w, 2, 1), eager

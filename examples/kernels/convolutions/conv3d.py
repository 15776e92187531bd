"""A convolution over three dimensions, of channels last in memory or not.

y[n, k, p, q, u] = sum over c, t, r, s of x[n, c, p * stride + t - padding, ...] * weight[k, c, t, r, s]

Source: an implicit product, as cuDNN's (Chetlur and others, "cuDNN: efficient primitives for deep learning", 2014).
"""

import torch
import torch.nn.functional as F

import ninetoothed
from ninetoothed import Symbol, Tensor, arrange
from ninetoothed_ops.kernels import mm

STRIDE, PADDING = Symbol("STRIDE", constexpr=True), Symbol("PADDING", constexpr=True)
CONSTANT = {"constexpr": True}


def arrangement(x, weight, y):
    """Windows as the rows of a matrix, filters as the columns of another; channels are innermost in both."""
    strides, padding = (1, STRIDE, STRIDE, STRIDE), (0, PADDING, PADDING, PADDING)
    x = arrange.windows(x, weight.shape[1:], stride=strides, padding=padding)  # (n, 1, p, q, u), (c, t, r, s)
    x.dtype = x.dtype.permute(1, 2, 3, 0)
    x = x.squeeze(1).ravel().flatten(4).flatten(0, 4)  # (n * p * q * u, t * r * s * c)
    weight = weight.permute(2, 3, 4, 1, 0).flatten(0, 4)
    y = y.permute(0, 2, 3, 4, 1).flatten(0, 4)
    return mm.arrangement(x, weight, y)


volumes, filters = (None, *[CONSTANT] * 4), (CONSTANT,) * 5
tensors = Tensor(5, shape_options=volumes), Tensor(5, shape_options=filters), Tensor(5, shape_options=volumes)
kernel = ninetoothed.make(arrangement, mm.application, tensors, kernel_name="conv3d")


def conv3d(x, weight, stride=1, padding=0):
    sizes = ((size + 2 * padding - width) // stride + 1 for size, width in zip(x.shape[2:], weight.shape[2:]))
    y = x.new_empty(x.shape[0], weight.shape[0], *sizes)
    kernel(x, weight, y, STRIDE=stride, PADDING=padding)
    return y


def check(device):
    for n, c, shape, k, widths, stride, padding in (
        (2, 3, (5, 7, 6), 4, (3, 3, 3), 1, 1),
        (1, 2, (6, 5, 9), 5, (2, 3, 4), 2, 0),
    ):
        x, weight = torch.randn(n, c, *shape, device=device), torch.randn(k, c, *widths, device=device)
        yield conv3d(x, weight, stride, padding), F.conv3d(x.double(), weight.double(), None, stride, padding)
    x = torch.randn(2, 4, 5, 6, 8, device=device, dtype=torch.float16).permute(0, 4, 1, 2, 3)
    weight = torch.randn(7, 8, 1, 3, 3, device=device, dtype=torch.float16)
    yield conv3d(x, weight, 1, 1), F.conv3d(x.double(), weight.double(), None, 1, 1)


def timed(device):
    x = torch.randn(2, 64, 16, 56, 56, device=device, dtype=torch.float16)
    weight = torch.randn(64, 64, 3, 3, 3, device=device, dtype=torch.float16)
    x, weight = (each.contiguous(memory_format=torch.channels_last_3d) for each in (x, weight))
    return (x, weight), lambda x, w: conv3d(x, w, padding=1), lambda x, w: F.conv3d(x, w, padding=1)

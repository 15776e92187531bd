"""Means of windows that cut each image into as many rows and columns as y has; one of each is global pooling.

y[n, c, p, q] = mean of x[n, c, floor(p H / P) : ceil((p + 1) H / P), floor(q W / Q) : ceil((q + 1) W / Q)]

Source: PyTorch's `adaptive_avg_pool2d`. Windows differ in size, so that no `tile` cuts them: a matrix product with the
share that each row, and each column, has of each window does. Images are no larger than a tile.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor


def arrangement(x, y):
    return x.tile(None, None, -1, -1), y.tile(None, None, -1, -1)


def shares(windows, size):
    """(windows, size): which part of each window's mean an element is."""
    window, element = ntl.arange(0, windows)[:, None], ntl.arange(0, size)[None, :]
    start, stop = window * size // windows, ntl.cdiv((window + 1) * size, windows)
    return ntl.where((element >= start) & (element < stop), 1.0 / (stop - start), 0.0)


def application(x, y):
    down, across = shares(y.shape[0], x.shape[0]), shares(y.shape[1], x.shape[1])
    y = ntl.dot(ntl.dot(down, x.to(ntl.float32)), ntl.trans(across))


constant = (None, None, {"constexpr": True}, {"constexpr": True})
tensors = Tensor(4, shape_options=constant), Tensor(4, shape_options=constant)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="adaptive_avg_pool2d")


def adaptive_avg_pool2d(x, sizes):
    y = x.new_empty(*x.shape[:2], *sizes)
    kernel(x, y)
    return y


def check(device):
    for n, c, *shape, sizes in (
        (2, 3, 9, 7, (4, 3)),
        (1, 2, 14, 14, (7, 7)),
        (2, 2, 5, 6, (1, 1)),
        (1, 1, 3, 4, (5, 6)),
    ):
        x = torch.randn(n, c, *shape, device=device)
        yield adaptive_avg_pool2d(x, sizes), F.adaptive_avg_pool2d(x.double(), sizes)
    x = torch.randn(2, 11, 13, 3, device=device, dtype=torch.float16).permute(0, 3, 1, 2)
    yield adaptive_avg_pool2d(x, (2, 5)), F.adaptive_avg_pool2d(x.double(), (2, 5))


def timed(device):
    x = torch.randn(64, 512, 24, 24, device=device, dtype=torch.float16)
    return (x,), lambda x: adaptive_avg_pool2d(x, (7, 7)), lambda x: F.adaptive_avg_pool2d(x, (7, 7))

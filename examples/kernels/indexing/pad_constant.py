"""A border of one value around images.

y[n, i, j] = x[n, i - top, j - left] where that is an element of x, else the value

Source: PyTorch's `pad` with mode "constant". A value that is known when compiling would be `Tensor(3, other=value)`.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Symbol, Tensor, block_size

SIDES = tuple(Symbol(name, constexpr=True) for name in ("TOP", "BOTTOM", "LEFT", "RIGHT"))


def arrangement(x, value, y, ROWS=block_size(1, 32), COLUMNS=block_size()):
    x = x.pad(((0, 0), SIDES[:2], SIDES[2:]))
    return x.tile(None, ROWS, COLUMNS), value, y.tile(None, ROWS, COLUMNS)


def application(x, value, y):
    _, height, width = x.source.shape
    i, j = x.offsets(1)[:, None], x.offsets(2)[None, :]
    y = ntl.where((i >= 0) & (i < height) & (j >= 0) & (j < width), x, value)


kernel = ninetoothed.make(arrangement, application, (Tensor(3), Tensor(0), Tensor(3)), kernel_name="pad_constant")


def pad_constant(x, left, right, top, bottom, value=0.0):
    y = x.new_empty(x.shape[0], x.shape[1] + top + bottom, x.shape[2] + left + right)
    kernel(x, value, y, TOP=top, BOTTOM=bottom, LEFT=left, RIGHT=right)
    return y


def check(device):
    for shape, sides, value in (
        ((2, 9, 70), (1, 2, 3, 4), -1.5),
        ((1, 1, 5), (0, 3, 0, 0), 0.0),
        ((3, 0, 2), (2, 2, 1, 1), 7.0),
    ):
        x = torch.randn(*shape, device=device)
        yield pad_constant(x, *sides, value), F.pad(x.double(), sides, value=value)
    x = torch.randn(12, 33, 4, device=device, dtype=torch.float16).permute(2, 1, 0)[:, ::2, ::3]
    yield pad_constant(x, 5, 0, 1, 1, 2.0), F.pad(x.double(), (5, 0, 1, 1), value=2.0)


def timed(device):
    x = torch.randn(64, 1024, 1024, device=device, dtype=torch.float16)
    return (x,), lambda x: pad_constant(x, 3, 3, 3, 3, 1.0), lambda x: F.pad(x, (3, 3, 3, 3), value=1.0)

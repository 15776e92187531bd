"""Images enlarged by a whole factor, each pixel to a square.

y[n, i, j] = x[n, i // factor, j // factor]

Source: PyTorch's `interpolate` with mode "nearest". The arrangement is all of it.
"""

import torch
import torch.nn.functional as F

import ninetoothed
from ninetoothed import Symbol, Tensor, block_size

FACTOR = Symbol("FACTOR", constexpr=True)


def arrangement(x, y, ROWS=block_size(1, 32), COLUMNS=block_size()):
    x = x[:, :, None, :, None].expand(-1, -1, FACTOR, -1, FACTOR).flatten(3).flatten(1, 3)
    return x.tile(1, ROWS, COLUMNS), y.tile(1, ROWS, COLUMNS)


def application(x, y):
    y = x


kernel = ninetoothed.make(arrangement, application, (Tensor(3), Tensor(3)), kernel_name="upsample_nearest")


def reference(x, factor):
    return F.interpolate(x[None], scale_factor=factor, mode="nearest")[0]


def upsample_nearest(x, factor):
    y = x.new_empty(x.shape[0], x.shape[1] * factor, x.shape[2] * factor)
    kernel(x, y, FACTOR=factor)
    return y


def check(device):
    for shape, factor in (((2, 11, 7), 3), ((1, 1, 5), 2), ((3, 4, 2), 1)):
        x = torch.randn(*shape, device=device)
        yield upsample_nearest(x, factor), reference(x.double(), factor)
    x = torch.randn(14, 10, 3, device=device, dtype=torch.float16).permute(2, 1, 0)[:, ::3]
    yield upsample_nearest(x, 4), reference(x.double(), 4)


def timed(device):
    return (torch.randn(256, 256, 256, device=device, dtype=torch.float16), 2), upsample_nearest, reference

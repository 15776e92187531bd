"""Images of any other size, whose pixels lie between four of the old ones.

y[n, i, j] = sum over the four pixels around (u, v) of (1 - |u - row|) (1 - |v - column|) x[n, row, column]

u = (i + 1/2) * height of x / height of y - 1/2, and likewise v; rows and columns stay within the image.

Source: PyTorch's `interpolate` with mode "bilinear", whose corners are not aligned.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange, block_size


def arrangement(x, y, ROWS=block_size(1, 32), COLUMNS=block_size()):
    y = y.tile(None, ROWS, COLUMNS)
    return arrange.whole(x, y.shape), y


def around(places, old, new):
    """The two old places around each new one, and how far it is from the first to the second."""
    place = ntl.maximum((places + 0.5) * (old / new) - 0.5, 0.0)
    first = ntl.minimum(place.to(ntl.int32), old - 1)
    return first, ntl.minimum(first + 1, old - 1), place - first


def application(x, y):
    _, height, width = x.source.shape
    top, bottom, down = around(y.offsets(1), height, y.source.shape[1])
    left, right, across = around(y.offsets(2), width, y.source.shape[2])

    def row(i):
        first, second = (x.source[y.offsets(0), i[:, None], j[None, :]].to(ntl.float32) for j in (left, right))
        return first + across[None, :] * (second - first)

    y = row(top) + down[:, None] * (row(bottom) - row(top))


kernel = ninetoothed.make(arrangement, application, (Tensor(3), Tensor(3)), kernel_name="upsample_bilinear")


def reference(x, size):
    return F.interpolate(x[None], size=size, mode="bilinear", align_corners=False)[0]


def upsample_bilinear(x, size):
    y = x.new_empty(x.shape[0], *size)
    kernel(x, y)
    return y


def check(device):
    for shape, size in (((2, 11, 7), (30, 9)), ((1, 1, 5), (3, 4)), ((3, 4, 2), (2, 1))):
        x = torch.randn(*shape, device=device)
        yield upsample_bilinear(x, size), reference(x.double(), size)
    x = torch.randn(14, 10, 3, device=device, dtype=torch.float16).permute(2, 1, 0)[:, ::3]
    yield upsample_bilinear(x, (17, 40)), reference(x.double(), (17, 40))


def timed(device):
    x = torch.randn(256, 256, 256, device=device, dtype=torch.float16)
    return (x, (512, 512)), upsample_bilinear, reference

"""How steep an image is at each pixel, by Sobel's two masks; beyond the edges are the nearest pixels.

y[i, j] = sqrt(gx^2 + gy^2),  gx = [1 2 1]^T [-1 0 1] * x,  gy = [-1 0 1]^T [1 2 1] * x

Source: Sobel and Feldman, "A 3x3 isotropic gradient operator for image processing", 1968.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange, block_size


def arrangement(x, y, ROWS=block_size(1, 32), COLUMNS=block_size()):
    y = y.tile(ROWS, COLUMNS)
    return arrange.whole(x, y.shape), y


def application(x, y):
    height, width = x.source.shape

    def at(down, across):
        """Read the neighbours of all pixels of the block, so far away; indices stay within the image."""
        i = ntl.clamp(y.offsets(0) + down, 0, height - 1)[:, None]
        j = ntl.clamp(y.offsets(1) + across, 0, width - 1)[None, :]
        return x.source[i, j].to(ntl.float32)

    gx = at(-1, 1) - at(-1, -1) + 2 * (at(0, 1) - at(0, -1)) + at(1, 1) - at(1, -1)
    gy = at(1, -1) - at(-1, -1) + 2 * (at(1, 0) - at(-1, 0)) + at(1, 1) - at(-1, 1)
    y = ntl.sqrt(gx * gx + gy * gy)


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2)), kernel_name="sobel")


def reference(x):
    smooth, slope = (torch.tensor(v, device=x.device, dtype=x.dtype) for v in ([1, 2, 1], [-1, 0, 1]))
    masks = torch.stack([smooth.outer(slope), slope.outer(smooth)])[:, None]
    return F.conv2d(F.pad(x[None, None], (1, 1, 1, 1), mode="replicate"), masks)[0].norm(dim=0)


def sobel(x):
    y = torch.empty(x.shape, device=x.device)
    kernel(x, y)
    return y


def check(device):
    for shape in ((33, 70), (1, 5), (4, 1)):
        x = torch.randn(*shape, device=device)
        yield sobel(x), reference(x.double())
    x = torch.randint(0, 256, (37, 50), device=device, dtype=torch.uint8).T
    yield sobel(x), reference(x.double())


def timed(device):
    return (torch.rand(4096, 4096, device=device),), sobel, reference

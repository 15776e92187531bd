"""A step of the heat equation: a Laplacian of five points, with nothing beyond the edges.

y[i, j] = x[i, j] + rate * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1] - 4 * x[i, j])

Source: forward differences in time, central ones in space (Courant, Friedrichs and Lewy, 1928).
"""

import torch
import torch.nn.functional as F

import ninetoothed
from ninetoothed import Tensor, arrange, block_size


def arrangement(x, rate, y, ROWS=block_size(upper_bound=64), COLUMNS=block_size()):
    return arrange.neighbours(x, (ROWS, COLUMNS)), rate, y.tile(ROWS, COLUMNS)


def application(x, rate, y):
    y = x[1, 1] + rate * (x[0, 1] + x[2, 1] + x[1, 0] + x[1, 2] - 4 * x[1, 1])


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(0), Tensor(2)), kernel_name="heat")


def reference(x, rate):
    laplacian = torch.tensor([[0, 1, 0], [1, -4, 1], [0, 1, 0]], device=x.device, dtype=x.dtype)
    return x + rate * F.conv2d(x[None, None], laplacian[None, None], padding=1)[0, 0]


def heat(x, rate):
    y = torch.empty_like(x)
    kernel(x, rate, y)
    return y


def check(device):
    for shape in ((33, 70), (1, 5), (1, 1), (0, 3)):
        x = torch.randn(*shape, device=device)
        yield heat(x, 0.1), reference(x.double(), 0.1) if x.numel() else x.double()
    x = torch.randn(50, 82, device=device, dtype=torch.float64).T[::2]
    yield heat(x, 0.25), reference(x, 0.25)


def timed(device):
    return (torch.randn(8192, 8192, device=device), 0.1), heat, reference

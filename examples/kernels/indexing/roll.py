"""A matrix whose rows and columns are moved on, and come back at the other end.

y[i, j] = x[(i - down) mod height, (j - right) mod width]

Source: PyTorch's `roll`.
"""

import torch

import ninetoothed
from ninetoothed import Tensor, arrange, block_size


def arrangement(x, down, right, y, ROWS=block_size(1, 32), COLUMNS=block_size()):
    y = y.tile(ROWS, COLUMNS)
    return arrange.whole(x, y.shape), down, right, y


def application(x, down, right, y):
    height, width = x.source.shape
    i, j = (y.offsets(0) - down) % height, (y.offsets(1) - right) % width
    y = x.source[i[:, None], j[None, :]]


tensors = Tensor(2), Tensor(0), Tensor(0), Tensor(2)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="roll")


def reference(x, down, right):
    return x.roll((down, right), (0, 1))


def roll(x, down, right):
    y = torch.empty_like(x)
    kernel(x, down, right, y)
    return y


def check(device):
    for shape, shifts in (((33, 70), (5, -69)), ((1, 3), (-2, 100)), ((4, 1), (0, 0)), ((0, 4), (1, 1))):
        x = torch.randn(*shape, device=device)
        yield roll(x, *shifts), reference(x.double(), *shifts)
    x = torch.randint(-9, 9, (33, 8), device=device, dtype=torch.int8).T[::2]
    yield roll(x, 3, 17), reference(x, 3, 17)


def timed(device):
    return (torch.randn(8192, 8192, device=device, dtype=torch.float16), 100, 1000), roll, reference

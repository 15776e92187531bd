"""Images turned around, left to right or upside down.

y[n, i, j] = x[n, i, width - 1 - j], or x[n, height - 1 - i, j]

Source: PyTorch's `flip`. A slice says it all, as in NumPy.
"""

import torch

import ninetoothed
from ninetoothed import Tensor, block_size


def left_to_right(x, y, ROWS=block_size(1, 32), COLUMNS=block_size()):
    return x[:, :, ::-1].tile(1, ROWS, COLUMNS), y.tile(1, ROWS, COLUMNS)


def upside_down(x, y, ROWS=block_size(1, 32), COLUMNS=block_size()):
    return x[:, ::-1].tile(1, ROWS, COLUMNS), y.tile(1, ROWS, COLUMNS)


def application(x, y):
    y = x


flip_rows = ninetoothed.make(upside_down, application, (Tensor(3), Tensor(3)), kernel_name="flip_rows")
kernel = ninetoothed.make(left_to_right, application, (Tensor(3), Tensor(3)), kernel_name="flip_columns")


def flip(x, dim):
    y = torch.empty_like(x)
    (kernel if dim == 2 else flip_rows)(x, y)
    return y


def check(device):
    for dim in (1, 2):
        for shape in ((2, 33, 70), (1, 1, 3), (2, 0, 4)):
            x = torch.randn(*shape, device=device)
            yield flip(x, dim), x.double().flip(dim)
        x = torch.randint(0, 256, (33, 8, 3), device=device, dtype=torch.uint8).permute(2, 1, 0)[:, ::2]
        yield flip(x, dim), x.flip(dim)


def timed(device):
    x = torch.randint(0, 256, (64, 2048, 2048), device=device, dtype=torch.uint8)
    return (x,), lambda x: flip(x, 2), lambda x: x.flip(2)

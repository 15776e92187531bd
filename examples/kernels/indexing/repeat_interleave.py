"""Each row so many times in a row.

y[i, j] = x[i // repeats, j]

Source: PyTorch's `repeat_interleave`. `expand` repeats, `flatten` puts the copies one after another.
"""

import torch

import ninetoothed
from ninetoothed import Symbol, Tensor, block_size

REPEATS = Symbol("REPEATS", constexpr=True)


def arrangement(x, y, ROWS=block_size(1, 32), COLUMNS=block_size()):
    x = x.unsqueeze(1).expand(-1, REPEATS, -1).flatten(0, 2)
    return x.tile(ROWS, COLUMNS), y.tile(ROWS, COLUMNS)


def application(x, y):
    y = x


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2)), kernel_name="repeat_interleave")


def repeat_interleave(x, repeats):
    y = x.new_empty(x.shape[0] * repeats, x.shape[1])
    kernel(x, y, REPEATS=repeats)
    return y


def check(device):
    for shape, repeats in (((33, 70), 3), ((1, 5), 4), ((4, 2), 1), ((0, 3), 2)):
        x = torch.randn(*shape, device=device)
        yield repeat_interleave(x, repeats), x.double().repeat_interleave(repeats, 0)
    x = torch.randn(40, 10, device=device, dtype=torch.float16).T[:, ::3]
    yield repeat_interleave(x, 5), x.double().repeat_interleave(5, 0)


def timed(device):
    x = torch.randn(8192, 4096, device=device, dtype=torch.float16)
    return (x, 4), repeat_interleave, lambda x, repeats: x.repeat_interleave(repeats, 0)

"""An element of its row for each index.

y[i, j] = x[i, index[i, j]]

Source: PyTorch's `gather` along the last dimension.
"""

import torch

import ninetoothed
from ninetoothed import Tensor, arrange, block_size


def arrangement(x, index, y, ROWS=block_size(1, 32), COLUMNS=block_size()):
    y, index = y.tile(ROWS, COLUMNS), index.tile(ROWS, COLUMNS)
    return arrange.whole(x, y.shape), index, y


def application(x, index, y):
    y = x.source[y.offsets(0)[:, None], index]


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2), Tensor(2)), kernel_name="gather")


def reference(x, index):
    return x.gather(1, index.long())


def gather(x, index):
    y = x.new_empty(index.shape)
    kernel(x, index, y)
    return y


def check(device):
    for rows, columns, picked in ((7, 70, 33), (5, 1, 3), (3, 4, 0)):
        x, index = torch.randn(rows, columns, device=device), torch.randint(0, columns, (rows, picked), device=device)
        yield gather(x, index), reference(x.double(), index)
    x = torch.randint(-9, 9, (40, 10), device=device, dtype=torch.int16).T
    index = torch.randint(0, 40, (10, 90), device=device, dtype=torch.int32)[:, ::2]
    yield gather(x, index), reference(x, index)


def timed(device):
    index = torch.randint(0, 32768, (4096, 4096), device=device)
    return (torch.randn(4096, 32768, device=device, dtype=torch.float16), index), gather, lambda x, i: x.gather(1, i)

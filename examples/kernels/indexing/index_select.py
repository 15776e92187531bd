"""Columns of a matrix, by their numbers.

y[:, j] = x[:, index[j]]

Source: PyTorch's `index_select`. Numbers below 0 count from the end, as in `x[:, index]`.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange, block_size


def arrangement(x, index, y, ROWS=block_size(1, 32), COLUMNS=block_size()):
    y = y.tile(ROWS, COLUMNS)
    index = index.tile(COLUMNS).unsqueeze(0).expand(y.shape[0], -1)
    return arrange.whole(x, y.shape), index, y


def application(x, index, y):
    columns = ntl.where(index < 0, index + x.source.shape[1], index)
    y = x.source[y.offsets(0)[:, None], columns[None, :]]


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(1), Tensor(2)), kernel_name="index_select")


def reference(x, index):
    return x[:, index.long()]


def index_select(x, index):
    y = x.new_empty(x.shape[0], len(index))
    kernel(x, index, y)
    return y


def check(device):
    for rows, columns, picked in ((33, 70, 7), (1, 5, 30), (4, 3, 0)):
        x, index = torch.randn(rows, columns, device=device), torch.randint(-columns, columns, (picked,), device=device)
        yield index_select(x, index), reference(x.double(), index)
    x = torch.randn(40, 10, device=device, dtype=torch.float16).T
    index = torch.randint(-40, 40, (80,), device=device, dtype=torch.int32)[::2]
    yield index_select(x, index), reference(x.double(), index)


def timed(device):
    x, index = torch.randn(16384, 8192, device=device), torch.randint(0, 8192, (4096,), device=device)
    return (x, index), index_select, lambda x, index: x.index_select(1, index)

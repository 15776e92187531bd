"""Each element added to the element of y that its index names.

y[index[i, j], j] += x[i, j]

Source: PyTorch's `scatter_add_` along the first dimension. Indices may repeat: additions are atomic.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange, block_size

DATA_DEPENDENT = "`y` is added to, where the indices say that are loaded"


def arrangement(x, index, y, ROWS=block_size(1, 32), COLUMNS=block_size()):
    x, index = x.tile(ROWS, COLUMNS), index.tile(ROWS, COLUMNS)
    return x, index, arrange.whole(y, x.shape)


def application(x, index, y):
    ntl.atomic_add(y.source[index, x.offsets(1)[None, :]], x)


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2), Tensor(2)), kernel_name="scatter_add")


def reference(x, index, rows):
    return x.new_zeros(rows, x.shape[1]).scatter_add_(0, index, x)


def scatter_add(x, index, rows):
    y = x.new_zeros(rows, x.shape[1])
    kernel(x, index, y)
    return y


def check(device):
    for rows, columns, targets in ((33, 70, 7), (1, 5, 3), (0, 4, 3)):
        x, index = torch.randn(rows, columns, device=device), torch.randint(0, targets, (rows, columns), device=device)
        yield scatter_add(x, index, targets), reference(x.double(), index, targets)
    x = torch.randint(-9, 9, (40, 10), device=device, dtype=torch.int32).T
    index = torch.randint(0, 4, (10, 80), device=device)[:, ::2]
    yield scatter_add(x, index, 4), reference(x, index, 4)


def timed(device):
    x, index = torch.randn(65536, 256, device=device), torch.randint(0, 8192, (65536, 256), device=device)
    return (x, index, 8192), scatter_add, reference

"""A row for each number, which is 1 in its place and 0 elsewhere.

y[i, j] = 1 if x[i] = j else 0

Source: PyTorch's `one_hot`.
"""

import torch
import torch.nn.functional as F

import ninetoothed
from ninetoothed import Tensor, block_size


def arrangement(x, y, ROWS=block_size(1, 32), COLUMNS=block_size()):
    y = y.tile(ROWS, COLUMNS)
    return x.tile(ROWS).unsqueeze(1).expand(-1, y.shape[1]), y


def application(x, y):
    y = x[:, None] == y.offsets(1)[None, :]


kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(2)), kernel_name="one_hot")


def one_hot(x, classes, dtype=torch.int64):
    y = torch.empty(len(x), classes, dtype=dtype, device=x.device)
    kernel(x, y)
    return y


def check(device):
    for size, classes in ((33, 70), (1, 1), (0, 5)):
        x = torch.randint(0, classes, (size,), device=device)
        yield one_hot(x, classes), F.one_hot(x, classes)
    x = torch.randint(0, 9, (99,), device=device, dtype=torch.int32)[::3]
    yield one_hot(x, 9, torch.float16), F.one_hot(x.long(), 9).double()


def timed(device):
    x = torch.randint(0, 32000, (4096,), device=device)
    return (x, 32000), one_hot, F.one_hot

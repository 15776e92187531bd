"""A border around rows that mirrors them at their first and last elements.

y[n, j] = x[n, last - |last - |j - left||],  where last = x.shape[1] - 1

Source: PyTorch's `pad` with mode "reflect".
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange, block_size


def arrangement(x, left, y, ROWS=block_size(1, 32), COLUMNS=block_size()):
    y = y.tile(ROWS, COLUMNS)
    return arrange.whole(x, y.shape), left, y


def application(x, left, y):
    last = x.source.shape[1] - 1
    columns = last - ntl.abs(last - ntl.abs(y.offsets(1) - left))
    y = x.source[y.offsets(0)[:, None], columns[None, :]]


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(0), Tensor(2)), kernel_name="pad_reflect")


def pad_reflect(x, left, right):
    y = x.new_empty(x.shape[0], x.shape[1] + left + right)
    kernel(x, left, y)
    return y


def check(device):
    for shape, sides in (((7, 70), (5, 69)), ((1, 3), (2, 0)), ((4, 1), (0, 0))):
        x = torch.randn(*shape, device=device)
        yield pad_reflect(x, *sides), F.pad(x.double(), sides, mode="reflect")
    x = torch.randn(33, 8, device=device, dtype=torch.bfloat16).T[::2]
    yield pad_reflect(x, 3, 17), F.pad(x.double(), (3, 17), mode="reflect")


def timed(device):
    x = torch.randn(512, 65536, device=device)
    return (x,), lambda x: pad_reflect(x, 400, 400), lambda x: F.pad(x, (400, 400), mode="reflect")

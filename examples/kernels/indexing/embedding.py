"""Rows of a table, by their numbers.

y[t, :] = table[ids[t], :]

Source: PyTorch's `embedding`.
"""

import torch
import torch.nn.functional as F

import ninetoothed
from ninetoothed import Tensor, arrange, block_size


def arrangement(ids, table, y, ROWS=block_size(1, 32), COLUMNS=block_size()):
    y = y.tile(ROWS, COLUMNS)
    ids = ids.tile(ROWS).unsqueeze(1).expand(-1, y.shape[1])
    return ids, arrange.whole(table, y.shape), y


def application(ids, table, y):
    y = table.source[ids[:, None], y.offsets(1)[None, :]]


kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(2), Tensor(2)), kernel_name="embedding")


def embedding(ids, table):
    y = table.new_empty(*ids.shape, table.shape[1])
    kernel(ids.flatten(), table, y.view(ids.numel(), table.shape[1]))
    return y


def check(device):
    for shape, rows, columns in (((3, 11), 7, 70), ((1,), 1, 5), ((0,), 3, 4)):
        ids, table = torch.randint(0, rows, shape, device=device), torch.randn(rows, columns, device=device)
        yield embedding(ids, table), F.embedding(ids, table.double())
    table = torch.randn(40, 10, device=device, dtype=torch.bfloat16).T[:, ::2]
    ids = torch.randint(0, 10, (90,), device=device, dtype=torch.int32)[::3]
    yield embedding(ids, table), F.embedding(ids, table.double())


def timed(device):
    ids = torch.randint(0, 128256, (16, 4096), device=device)
    return (ids, torch.randn(128256, 2048, device=device, dtype=torch.float16)), embedding, F.embedding

"""The mean of some rows of a table for each bag; an empty bag gives zeros.

y[b, :] = mean over i from offsets[b] to offsets[b + 1] of table[ids[i], :]

Source: PyTorch's `embedding_bag`. Bags are ragged: they lie one after another.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange, block_size


def arrangement(ids, offsets, table, y, COLUMNS=block_size()):
    y = y.tile(None, COLUMNS)
    offsets = arrange.groups(offsets).unsqueeze(1).expand(-1, y.shape[1])
    return arrange.whole(ids, y.shape), offsets, arrange.whole(table, y.shape), y


def application(ids, offsets, table, y):
    total = ntl.zeros(y.shape, dtype=ntl.float32)

    for i in range(offsets[0], offsets[1]):
        total += table.source[ids.source[i], y.offsets(1)]

    y = total / max(offsets[1] - offsets[0], 1)


kernel = ninetoothed.make(
    arrangement, application, (Tensor(1), Tensor(1), Tensor(2), Tensor(2)), kernel_name="embedding_bag"
)


def reference(ids, offsets, table):
    return F.embedding_bag(ids, table, offsets, mode="mean", include_last_offset=True)


def embedding_bag(ids, offsets, table):
    y = table.new_empty(len(offsets) - 1, table.shape[1])
    kernel(ids, offsets, table, y)
    return y


def check(device):
    for sizes, rows, columns in (((3, 0, 5, 1), 7, 70), ((1,), 1, 5), ((0, 0), 3, 4)):
        offsets = torch.tensor((0, *sizes), device=device).cumsum(0)
        ids, table = torch.randint(0, rows, (sum(sizes),), device=device), torch.randn(rows, columns, device=device)
        yield embedding_bag(ids, offsets, table), reference(ids, offsets, table.double())
    table = torch.randn(40, 10, device=device, dtype=torch.float16).T[:, ::2]
    ids, offsets = torch.randint(0, 10, (30,), device=device), torch.tensor([0, 4, 4, 30], device=device)
    yield embedding_bag(ids, offsets, table), reference(ids, offsets, table.double())


def timed(device):
    sizes = [0] + [1 + 37 * i % 64 for i in range(16384)]
    offsets = torch.tensor(sizes, device=device).cumsum(0)
    ids = torch.randint(0, 100000, (sum(sizes),), device=device)
    return (ids, offsets, torch.randn(100000, 256, device=device)), embedding_bag, reference

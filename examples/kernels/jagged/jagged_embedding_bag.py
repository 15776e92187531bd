"""The sum of some rows of a table for each bag, its numbers in a nested tensor; an empty bag gives zeros.

y[b, :] = sum over j < length[b] of table[ids[b, j], :]

Source: PyTorch's `embedding_bag`. `other=-1` is a number past the end of a bag: the row -1 is none, and adds nothing.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange, block_size


def arrangement(ids, table, y, BAG=block_size(upper_bound=8), COLUMNS=block_size(upper_bound=256)):
    y = y.tile(None, COLUMNS)
    ids = ids.tile(None, BAG, loop=1).expand(-1, y.shape[1])
    return ids, arrange.whole(table, y.shape), y


def application(ids, table, y):
    total = ntl.zeros(y.shape, dtype=ntl.float32)

    for k in range(ids.shape[0]):
        total += ntl.sum(table.source[ids[k][:, None], y.offsets(1)[None, :]], axis=0)

    y = total


tensors = Tensor(2, jagged_dim=1, other=-1), Tensor(2, other=0.0), Tensor(2)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="jagged_embedding_bag")


def jagged_embedding_bag(ids, offsets, table, longest):
    y = table.new_empty(len(offsets) - 1, table.shape[1])
    kernel(torch.nested.nested_tensor_from_jagged(ids, offsets, max_seqlen=longest), table, y)
    return y


def reference(ids, offsets, table, longest):
    return F.embedding_bag(ids, table, offsets, mode="sum", include_last_offset=True)


def check(device):
    for sizes, rows, columns in (((3, 0, 15, 1), 7, 70), ((1,), 1, 5), ((2, 0), 3, 4)):
        offsets = torch.tensor((0, *sizes), device=device).cumsum(0)
        ids, table = torch.randint(0, rows, (sum(sizes),), device=device), torch.randn(rows, columns, device=device)
        given = ids, offsets, table, max(sizes)
        yield jagged_embedding_bag(*given), reference(ids, offsets, table.double(), max(sizes))
    table = torch.randn(40, 10, device=device, dtype=torch.float16).T[:, ::2]
    ids, offsets = torch.randint(0, 10, (30,), device=device), torch.tensor([0, 4, 4, 30], device=device)
    yield jagged_embedding_bag(ids, offsets, table, 26), reference(ids, offsets, table.double(), 26)


def timed(device):
    sizes = [0] + [1 + 37 * i % 64 for i in range(16384)]
    offsets = torch.tensor(sizes, device=device).cumsum(0)
    ids = torch.randint(0, 100000, (sum(sizes),), device=device)
    return (ids, offsets, torch.randn(100000, 256, device=device), 64), jagged_embedding_bag, reference

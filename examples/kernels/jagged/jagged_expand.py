"""A row for each sequence, given to all of its places.

y[b, j, :] = x[b, :] where j < length[b]

Source: PyTorch's `expand` of a tensor (batch, 1, D) to the shape of a nested one. Nothing is written past a sequence.
"""

import torch

import ninetoothed
from ninetoothed import Tensor, block_size


def arrangement(x, y, ROWS=block_size(upper_bound=64), COLUMNS=block_size(upper_bound=256)):
    y = y.tile(None, ROWS, COLUMNS)
    return x.tile(None, COLUMNS).unsqueeze(1).expand(-1, y.shape[1], -1), y


def application(x, y):
    y = x[None, :]


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(3, jagged_dim=1)), kernel_name="jagged_expand")


def jagged_expand(x, offsets, rows, longest):
    y = x.new_empty(rows, x.shape[1])
    kernel(x, torch.nested.nested_tensor_from_jagged(y, offsets, max_seqlen=longest))
    return y


def check(device):
    for sizes, columns, dtype in (
        ((3, 0, 20, 1), 33, torch.float32),
        ((70,), 5, torch.float16),
        ((1, 130, 64, 0), 300, torch.bfloat16),
    ):
        sizes, offsets = torch.tensor(sizes, device=device), torch.tensor((0, *sizes), device=device).cumsum(0)
        x = torch.randn(len(sizes), columns, 2, device=device).to(dtype)[..., 1]
        found = jagged_expand(x, offsets, int(sizes.sum()), int(sizes.max()))
        yield found, x.double().repeat_interleave(sizes, 0)


def timed(device):
    sizes = [1 + 37 * i % 4096 for i in range(0, 4096, 64)]
    offsets = torch.tensor([0, *sizes], device=device).cumsum(0)

    def eager(x, offsets, rows, longest):
        return x.repeat_interleave(offsets.diff(), 0, output_size=rows)

    x = torch.randn(len(sizes), 1024, device=device, dtype=torch.float16)
    return (x, offsets, sum(sizes), max(sizes)), jagged_expand, eager

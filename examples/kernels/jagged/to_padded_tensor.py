"""Sequences of unequal lengths side by side, with zeros behind the short ones.

y[b, j, :] = x[b, j, :] where j < length[b], else 0

Source: PyTorch's `torch.nested.to_padded_tensor`. `other=0.0` is what x is past the end of an entry.
"""

import torch
import torch.nn.functional as F

import ninetoothed
from ninetoothed import Tensor, block_size


def arrangement(x, y, ROWS=block_size(upper_bound=64), COLUMNS=block_size(upper_bound=256)):
    return x.tile(None, ROWS, COLUMNS), y.tile(None, ROWS, COLUMNS)


def application(x, y):
    y = x


tensors = Tensor(3, jagged_dim=1, other=0.0), Tensor(3)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="to_padded_tensor")


def to_padded_tensor(values, offsets, longest):
    x = torch.nested.nested_tensor_from_jagged(values, offsets, max_seqlen=longest)
    y = values.new_empty(len(offsets) - 1, longest, values.shape[1])
    kernel(x, y)
    return y


def reference(values, sizes):
    longest = max(sizes)
    return torch.stack([F.pad(own, (0, 0, 0, longest - len(own))) for own in values.split(sizes)])


def check(device):
    for sizes, columns, dtype in (
        ((3, 0, 20, 1), 33, torch.float32),
        ((70,), 5, torch.float16),
        ((1, 130, 64, 0), 300, torch.bfloat16),
    ):
        offsets = torch.tensor((0, *sizes), device=device).cumsum(0)
        values = torch.randn(columns, sum(sizes), device=device).to(dtype).T
        yield to_padded_tensor(values, offsets, max(sizes)), reference(values.double(), sizes)


def timed(device):
    sizes = [1 + 37 * i % 4096 for i in range(0, 4096, 64)]
    offsets = torch.tensor([0, *sizes], device=device).cumsum(0)
    values = torch.randn(sum(sizes), 1024, device=device, dtype=torch.float16)

    def eager(values, offsets, longest):
        x = torch.nested.nested_tensor_from_jagged(values, offsets, max_seqlen=longest)
        return torch.nested.to_padded_tensor(x, 0.0)

    return (values, offsets, max(sizes)), to_padded_tensor, eager

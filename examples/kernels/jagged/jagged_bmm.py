"""A product for each sequence of a batch, of unequal lengths.

y[b, j, :] = x[b, j, :] @ weight[b] where j < length[b]

Source: PyTorch's `bmm` of a nested tensor and a dense one. A grid of the longest sequence's blocks; those past the end
of a short one end at once.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size

M, N, K = block_size(16, 128), block_size(16, 128), block_size(16, 64)


def arrangement(x, weight, y):
    y = y.tile(None, M, N)
    x = x.tile(None, M, K, loop=2).expand(-1, -1, y.shape[2])
    return x, weight.tile(None, K, N, loop=1).expand(-1, y.shape[1], -1), y


def application(x, weight, y):
    total = ntl.zeros(y.shape, dtype=ntl.float32)

    for k in range(x.shape[0]):
        total += ntl.dot(x[k], weight[k])

    y = total


tensors = Tensor(3, jagged_dim=1), Tensor(3), Tensor(3, jagged_dim=1)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="jagged_bmm")


def jagged_bmm(values, offsets, weight, longest):
    y = values.new_empty(values.shape[0], weight.shape[2])
    x, nested = (torch.nested.nested_tensor_from_jagged(each, offsets, max_seqlen=longest) for each in (values, y))
    kernel(x, weight, nested)
    return y


def check(device):
    for sizes, depth, columns, dtype in (
        ((3, 0, 20, 1), 20, 33, torch.float32),
        ((70,), 130, 5, torch.float16),
        ((0, 65, 64, 130), 40, 72, torch.bfloat16),
    ):
        offsets = torch.tensor((0, *sizes), device=device).cumsum(0)
        values = torch.randn(sum(sizes), depth, device=device).to(dtype)
        weight = torch.randn(len(sizes), columns, depth, device=device).to(dtype).mT
        parts = zip(values.double().split(sizes), weight.double())
        yield jagged_bmm(values, offsets, weight, max(sizes)), torch.cat([own @ matrix for own, matrix in parts])


def timed(device):
    sizes = [512 + 64 * (7 * i % 16 - 8) for i in range(16)]
    offsets = torch.tensor([0, *sizes], device=device).cumsum(0)
    values = torch.randn(sum(sizes), 2048, device=device, dtype=torch.float16)
    weight = torch.randn(16, 2048, 2048, device=device, dtype=torch.float16)

    def eager(values, offsets, weight, longest):
        return torch.cat([own @ matrix for own, matrix in zip(values.split(sizes), weight)])

    return (values, offsets, weight, max(sizes)), jagged_bmm, eager

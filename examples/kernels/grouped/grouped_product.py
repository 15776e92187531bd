"""Products of ragged groups of rows, each with a matrix of its own.

y[i, :] = x[i, :] @ weight[e],  for the group e with offsets[e] <= i < offsets[e + 1]

Groups lie one after another, and a program has a block of the rows of one group: there are programs for as many blocks
as if all rows were one group's, and those past its end do nothing. Source: Gale and others, "MegaBlocks: efficient
sparse training with mixture-of-experts", 2022.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange, block_size

DATA_DEPENDENT = "`y` and `x`: where a group begins and ends is loaded"


def arrangement(x, weight, offsets, y, M=block_size(lower_bound=16), N=block_size(), K=block_size()):
    y = y.tile(M, N).unsqueeze(0).expand(weight.shape[0], -1, -1)  # (groups, blocks, columns / N), (M, N)
    weight = weight.tile(None, K, N, loop=1).expand(-1, y.shape[1], -1)  # ..., (depth / K,), (K, N)
    offsets = arrange.groups(offsets)[:, None, None].expand(-1, *y.shape[1:])
    return arrange.whole(x, y.shape), weight, offsets, y


def application(x, weight, offsets, y):
    rows = offsets[0] + y.offsets(0)

    if ntl.min(rows) < offsets[1]:
        total = ntl.zeros(y.shape, dtype=ntl.float32)

        for k in range(weight.shape[0]):
            total += ntl.dot(x.source[rows[:, None], weight[k].offsets(1)[None, :]], weight[k])

        own = ntl.where(rows < offsets[1], rows, -1)  # a store to -1 is none
        y.source[own[:, None], y.offsets(1)[None, :]] = total


tensors = Tensor(2), Tensor(3), Tensor(1), Tensor(2, unique_indices=True)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="grouped_product")


def grouped_product(x, weight, offsets):
    y = x.new_empty(x.shape[0], weight.shape[2])
    kernel(x, weight, offsets, y)
    return y


def check(device):
    for sizes, depth, columns, dtype in (
        ((3, 0, 20, 1), 20, 33, torch.float32),
        ((70,), 130, 5, torch.float16),
        ((0, 65, 64), 40, 70, torch.bfloat16),
    ):
        offsets = torch.tensor((0, *sizes), device=device).cumsum(0)
        x = torch.randn(depth, sum(sizes), device=device).to(dtype).T
        weight = torch.randn(len(sizes), depth, columns, device=device).to(dtype)
        parts = zip(x.double().split(sizes), weight.double())
        yield grouped_product(x, weight, offsets), torch.cat([own @ matrix for own, matrix in parts])


def timed(device):
    sizes = [512 + 64 * (7 * i % 16 - 8) for i in range(16)]
    offsets = torch.tensor([0, *sizes], device=device).cumsum(0)
    x = torch.randn(sum(sizes), 2048, device=device, dtype=torch.float16)
    weight = torch.randn(16, 2048, 2048, device=device, dtype=torch.float16)

    def eager(x, weight, offsets):
        return torch.cat([own @ matrix for own, matrix in zip(x.split(sizes), weight)])

    return (x, weight, offsets), grouped_product, eager

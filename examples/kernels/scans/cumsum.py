"""Running sums of long rows.

output[i, j] = input[i, 0] + ... + input[i, j]

A block is scanned in registers, and what came before it is carried from block to block.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(input, output):
    return arrange.row_blocks(input, output, BLOCK_SIZE=1024)


def application(input, output):
    carry = 0.0

    for i in range(input.shape[0]):
        block = input[i].to(ntl.float32)
        output[i] = carry + ntl.cumsum(block)
        carry += ntl.sum(block)


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2)), kernel_name="cumsum")


def cumsum(input):
    output = torch.empty_like(input)
    kernel(input, output)
    return output


def check(device):
    for rows, columns, dtype in ((3, 1100, torch.float32), (5, 3001, torch.float16), (2, 0, torch.float32)):
        input = torch.randn(rows, 2 * columns, device=device).to(dtype)[:, ::2]
        yield cumsum(input), input.double().cumsum(1)


def timed(device):
    return (torch.randn(4096, 16384, device=device),), cumsum, lambda input: input.cumsum(1)

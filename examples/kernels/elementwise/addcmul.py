"""A product, scaled and added.

output = input + value * first * second, element by element; all three are broadcast
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def application(input, first, second, value, output):
    product = first.to(ntl.float32) * second.to(ntl.float32)
    output = input.to(ntl.float32) + value * product


tensors = (Tensor(2), Tensor(2), Tensor(2), Tensor(0), Tensor(2))
kernel = ninetoothed.make(arrange.blocks, application, tensors, kernel_name="addcmul")


def addcmul(input, first, second, value=1.0):
    input, first, second = torch.broadcast_tensors(input, first, second)  # strides of 0: nothing is repeated in memory
    output = torch.empty(input.shape, dtype=input.dtype, device=input.device)
    kernel(input, first, second, value, output)
    return output


def check(device):
    for rows, columns, dtype in ((5, 27, torch.float32), (70, 33, torch.float16), (129, 1, torch.bfloat16)):
        whole, row = (torch.randn(size, columns, device=device).to(dtype) for size in (rows, 1))
        column = torch.randn(rows, 1, device=device).to(dtype)
        yield addcmul(whole, row, column, -0.5), whole.double() - 0.5 * row.double() * column.double()
        yield addcmul(row, column, whole), row.double() + column.double() * whole.double()


def timed(device):
    input, first = (torch.randn(4096, 4096, device=device, dtype=torch.float16) for _ in range(2))
    return (input, first, torch.randn(1, 4096, device=device, dtype=torch.float16)), addcmul, torch.addcmul

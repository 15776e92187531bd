"""A product of int8 matrices, with a scale for each row of one and each column of the other.

c[m, n] = row[m] * column[n] * sum over k of a[m, k] * b[k, n]

The sum is exact, of 32 bits. Source: Dettmers and others, "LLM.int8(): 8-bit matrix multiplication for transformers at
scale", 2022.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed_ops.kernels import mm


def arrangement(a, b, row, column, c, M=mm.BLOCK_SIZE_M, N=mm.BLOCK_SIZE_N):
    a, b, c = mm.arrangement(a, b, c)
    row = row.tile(M).unsqueeze(1).expand(-1, c.shape[1])
    column = column.tile(N).unsqueeze(0).expand(c.shape[0], -1)
    return a, b, row, column, c


def application(a, b, row, column, c):
    total = ntl.zeros(c.shape, dtype=ntl.int32)

    for k in range(a.shape[0]):
        total += ntl.dot(a[k], b[k])

    c = total * row[:, None] * column[None, :]


tensors = Tensor(2), Tensor(2), Tensor(1), Tensor(1), Tensor(2)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="int8_product")


def reference(a, b, row, column):
    return ((a.to(row.dtype) @ b.to(row.dtype)) * row[:, None] * column).to(column.dtype)


def int8_product(a, b, row, column):
    c = torch.empty(a.shape[0], b.shape[1], device=a.device, dtype=column.dtype)
    kernel(a, b, row, column, c)
    return c


def check(device):
    for m, n, k, dtype in ((20, 33, 50, torch.float32), (70, 5, 130, torch.float16), (1, 40, 3000, torch.float32)):
        a, b = (torch.randint(-127, 128, shape, device=device, dtype=torch.int8) for shape in ((m, k), (n, k)))
        row, column = torch.rand(m, device=device) / 9000, torch.rand(n, device=device).to(dtype)
        yield int8_product(a, b.T, row, column), reference(a.double(), b.T.double(), row.double(), column.double())


def timed(device):
    a, b = (torch.randint(-127, 128, (4096, 4096), device=device, dtype=torch.int8) for _ in range(2))
    row, column = torch.rand(4096, device=device), torch.rand(4096, device=device)
    eager = lambda a, b, row, column: torch._int_mm(a, b) * row[:, None] * column  # noqa: E731
    return (a, b.T, row, column), int8_product, eager

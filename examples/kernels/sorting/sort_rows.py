"""Sort each row, and tell where its elements were.

values[i, j] = input[i, places[i, j]] rises with j; of equal elements the first comes first

A bitonic network of log(n)^2 exchanges, in registers. Batcher, "Sorting networks and their applications", 1968.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def application(input, values, places):
    values, places = ntl.sort(input, return_indices=True)


kernel = ninetoothed.make(arrange.rows, application, (Tensor(2), Tensor(2), Tensor(2)), kernel_name="sort_rows")


def sort_rows(input):
    values = torch.empty_like(input)
    places = torch.empty_like(input, dtype=torch.int64)
    kernel(input, values, places)
    return values, places


def check(device):
    for rows, columns, dtype in ((3, 21, torch.float32), (9, 300, torch.float16), (5, 64, torch.int32)):
        input = (5 * torch.randn(rows, 2 * columns, device=device)).to(dtype)[:, ::2]
        expected = input.double().sort(dim=1, stable=True)
        yield from zip(sort_rows(input), expected)


def timed(device):
    return (torch.randn(16384, 512, device=device),), sort_rows, lambda input: input.sort(dim=1, stable=True)

"""The rank of each element in its row.

output[i, j] = how many elements of row i come before element j, once it is sorted; equal ones in their order

The row is sorted with places, and place k gets the rank k: a store that goes where the sort says.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

DATA_DEPENDENT = "`output` at the places that a sort gives: each once, which only the order of the data tells"


def application(input, output):
    _, places = ntl.sort(input, return_indices=True)
    output.source[output.offsets(0), places] = ntl.arange(0, input.shape[0])


tensors = (Tensor(2), Tensor(2, unique_indices=True))
kernel = ninetoothed.make(arrange.rows, application, tensors, kernel_name="ranks")


def ranks(input):
    output = torch.empty_like(input, dtype=torch.int64)
    kernel(input, output)
    return output


def check(device):
    for rows, columns, dtype in ((3, 21, torch.float32), (9, 300, torch.float16), (5, 64, torch.int32)):
        input = (5 * torch.randn(rows, 2 * columns, device=device)).to(dtype)[:, ::2]
        comes_first = torch.ones(columns, columns, device=device).tril(-1) > 0
        ours, others = input.double()[:, :, None], input.double()[:, None]
        yield ranks(input), ((others < ours) | (others == ours) & comes_first).sum(2)


def timed(device):
    def eager(input):
        return input.argsort(dim=1, stable=True).argsort(dim=1)

    return (torch.randn(16384, 512, device=device),), ranks, eager

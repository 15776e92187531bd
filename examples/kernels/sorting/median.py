"""The median of each row.

output[i] = the element of row i below which (columns - 1) // 2 others stand, once it is sorted: the lower of two

Elements are counted, not sorted: an integer that orders floats as numbers is found bit by bit, from the highest, as
the greatest with few enough elements below it. That takes as many counts as the type has bits, whatever the row's
length.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(input, output):
    return *arrange.rows(input), output.tile(None)


def ordered(bits):
    """Flip all bits of a negative number but the sign's; it is its own inverse."""
    return ntl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


def application(input, output):
    keys = ordered(input.to(ntl.float32).to(ntl.int32, bitcast=True))
    rank = (input.shape[0] - 1) // 2
    found = ntl.where(ntl.sum((keys < 0).to(ntl.int32)) <= rank, 0, -2147483648)

    for i in range(31):
        higher = found + (1 << (30 - i))
        found = ntl.where(ntl.sum((keys < higher).to(ntl.int32)) <= rank, higher, found)

    output = ordered(found).to(ntl.float32, bitcast=True)


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(1)), kernel_name="median")


def median(input):
    output = input.new_empty(input.shape[0])
    kernel(input, output)
    return output


def check(device):
    for rows, columns, dtype in ((4, 21, torch.float32), (9, 300, torch.float16), (70, 1, torch.bfloat16)):
        input = (9 * torch.randn(rows, 2 * columns, device=device)).to(dtype)[:, ::2]
        yield median(input), input.double().sort(dim=1).values[:, (columns - 1) // 2]
    input = torch.tensor([[0.0, -0.0, torch.inf, -torch.inf], [-5.0, -3.0, -4.0, -torch.inf]], device=device)
    yield median(input), input.double().median(1).values


def timed(device):
    return (torch.randn(8192, 4096, device=device),), median, lambda input: input.median(1).values

"""Drop repetitions within rows.

values[i] = the elements of row i that differ from the one before, then `filler`; count[i] = how many there are

Where an element goes is how many before it differ: a running sum of flags.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

DATA_DEPENDENT = "`values` at a running sum of flags: which elements differ from the one before, the data tell"


def arrangement(input, filler, values, count):
    input, values = arrange.rows(input, values)
    return input, filler, values, count.tile(None)


def application(input, filler, values, count):
    row, columns = input.offsets(0), input.offsets(1)
    is_new = (columns == 0) | (input != input.source[row, columns - 1])
    places = ntl.cumsum(is_new.to(ntl.int32)) - 1
    total = ntl.sum(is_new.to(ntl.int32))
    values.source[row, ntl.where(is_new, places, -1)] = input  # an index of -1 is out of bounds: nothing is written
    values.source[row, ntl.where(columns >= total, columns, -1)] = filler
    count = total


tensors = (Tensor(2), Tensor(0), Tensor(2, unique_indices=True), Tensor(1))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="unique_consecutive")


def unique_consecutive(input, filler=0):
    values = torch.empty_like(input)
    count = torch.empty(input.shape[0], dtype=torch.int64, device=input.device)
    kernel(input, filler, values, count)
    return values, count


def check(device):
    for rows, columns, dtype in ((3, 21, torch.int64), (9, 300, torch.float16), (5, 1, torch.int32)):
        input = torch.randint(0, 3, (rows, 2 * columns), device=device).to(dtype)[:, ::2]
        values, count = unique_consecutive(input, 7)
        unique = [row.double().unique_consecutive() for row in input]
        yield values, torch.stack([torch.cat((each, each.new_full((columns - len(each),), 7))) for each in unique])
        yield count, torch.tensor([len(each) for each in unique], device=device)


def timed(device):
    def eager(input):
        is_new = torch.nn.functional.pad(input[:, 1:] != input[:, :-1], (1, 0), value=True)
        places = torch.where(is_new, is_new.cumsum(1) - 1, input.shape[1])
        values = input.new_zeros(input.shape[0], input.shape[1] + 1).scatter_(1, places, input)[:, :-1]
        return values, is_new.sum(1)

    return (torch.randint(0, 3, (8192, 4096), device=device),), unique_consecutive, eager

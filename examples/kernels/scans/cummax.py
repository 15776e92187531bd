"""Running maxima of rows, and their places.

values[i, j] = max of input[i, 0], ..., input[i, j] = input[i, places[i, j]], the last of several that are equal

The scan joins pairs (value, place); the function is associative, and need not be commutative.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def later(value, place, other, other_place):
    is_kept = value > other
    return ntl.where(is_kept, value, other), ntl.where(is_kept, place, other_place)


def application(input, values, places):
    values, places = ntl.associative_scan((input, input.offsets(1)), 0, later)


kernel = ninetoothed.make(arrange.rows, application, (Tensor(2), Tensor(2), Tensor(2)), kernel_name="cummax")


def cummax(input):
    values = torch.empty_like(input)
    places = torch.empty_like(input, dtype=torch.int64)
    kernel(input, values, places)
    return values, places


def check(device):
    for rows, columns, dtype in ((3, 21, torch.float32), (9, 300, torch.float16), (5, 40, torch.int32)):
        input = (5 * torch.randn(rows, 2 * columns, device=device)).to(dtype)[:, ::2]
        yield from zip(cummax(input), input.double().cummax(1))


def timed(device):
    return (torch.randn(16384, 4096, device=device),), cummax, lambda input: input.cummax(1)

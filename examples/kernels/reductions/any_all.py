"""Whether any, and whether all, elements of each row are true.

some[i] = any over j of input[i, j]; every[i] = all over j of input[i, j]

Numbers other than 0 are true, NaN too.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(input, some, every):
    return *arrange.rows(input), some.tile(None), every.tile(None)


def application(input, some, every):
    is_true = (input != 0).to(ntl.int32)
    some = ntl.max(is_true) > 0
    every = ntl.min(is_true) > 0


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(1), Tensor(1)), kernel_name="any_all")


def any_all(input):
    some, every = torch.empty(2, input.shape[0], dtype=torch.bool, device=input.device)
    kernel(input, some, every)
    return some, every


def check(device):
    for rows, columns, dtype in ((40, 3, torch.float32), (65, 5, torch.bool), (40, 2, torch.int8)):
        input = torch.randint(0, 2, (rows, 2 * columns), device=device).to(dtype)[:, ::2]
        some, every = any_all(input)
        yield some, input.double().sum(1) > 0
        yield every, input.double().sum(1) == columns


def timed(device):
    mask = torch.rand(16384, 8192, device=device) < 1e-4
    return (mask,), any_all, lambda mask: (mask.any(1), mask.all(1))

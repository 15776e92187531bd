"""Norm of each row, for any p.

output[i] = (sum over j of |input[i, j]|^p)^(1 / p)

Powers are of |input| / peak, so that none of them overflows.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(input, p, output):
    return *arrange.rows(input), p, output.tile(None)


def application(input, p, output):
    size = ntl.abs(input.to(ntl.float32))
    peak = ntl.max(size)
    ratio = size / ntl.where(peak == 0, 1.0, peak)
    powers = ntl.where(ratio > 0, ntl.exp2(p * ntl.log2(ratio)), 0.0)
    output = peak * ntl.exp2(ntl.log2(ntl.sum(powers)) / p)


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(0), Tensor(1)), kernel_name="p_norm")


def p_norm(input, p):
    output = input.new_empty(input.shape[0])
    kernel(input, p, output)
    return output


def check(device):
    for rows, columns, p, dtype in (
        (3, 21, 3.0, torch.float32),
        (33, 1000, 1.5, torch.float16),
        (4, 1, 2, torch.float32),
    ):
        input = torch.randn(columns, rows, device=device).to(dtype).T
        yield p_norm(input, p), input.double().abs().pow(p).sum(1).pow(1 / p)
    yield p_norm(torch.full((2, 9), 1e30, device=device), 2.0), torch.full((2,), 3e30, device=device).double()


def timed(device):
    input = torch.randn(16384, 4096, device=device)
    return (input, 3.0), p_norm, lambda input, p: torch.linalg.vector_norm(input, p, dim=1)

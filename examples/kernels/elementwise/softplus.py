"""Softplus.

output = log(1 + exp(beta * input)) / beta, element by element

It is max(z, 0) + log(1 + exp(-|z|)) with z = beta * input, which overflows nowhere.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def application(input, beta, output):
    scaled = beta * input.to(ntl.float32)
    output = (ntl.maximum(scaled, 0.0) + ntl.libdevice.log1p(ntl.exp(-ntl.abs(scaled)))) / beta


kernel = ninetoothed.make(arrange.blocks, application, (Tensor(2), Tensor(0), Tensor(2)), kernel_name="softplus")


def softplus(input, beta=1.0):
    output = torch.empty_like(input)
    kernel(input, beta, output)
    return output


def check(device):
    for rows, columns, beta, dtype in ((5, 27, 1.0, torch.float32), (33, 65, 2.5, torch.float16)):
        input = (8 * torch.randn(rows, columns, device=device)).to(dtype)
        zero = torch.zeros((), device=device, dtype=torch.float64)
        yield softplus(input, beta), torch.logaddexp(beta * input.double(), zero) / beta
    yield softplus(torch.full((1, 3), 1e4, device=device)), torch.full((1, 3), 1e4, device=device).double()


def timed(device):
    return (torch.randn(4096, 4096, device=device),), softplus, F.softplus

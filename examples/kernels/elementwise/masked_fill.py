"""Masked fill.

output = value where mask, else input, element by element; the mask is broadcast to the input
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def application(input, mask, value, output):
    output = ntl.where(mask, value, input)


tensors = (Tensor(3), Tensor(3), Tensor(0), Tensor(3))
kernel = ninetoothed.make(arrange.blocks, application, tensors, kernel_name="masked_fill")


def masked_fill(input, mask, value):
    output = torch.empty_like(input)
    kernel(input, mask.expand(input.shape), value, output)
    return output


def check(device):
    for dtype, value in ((torch.float32, -torch.inf), (torch.float16, 0.5), (torch.int64, -7)):
        input = (9 * torch.randn(3, 5, 19, device=device)).to(dtype)
        mask = torch.rand(5, 19, device=device) < 0.4
        yield masked_fill(input, mask, value), torch.where(mask.expand_as(input), value, input.double())
        mask = torch.rand(3, 1, 1, device=device) < 0.4
        yield masked_fill(input, mask, value), torch.where(mask.expand_as(input), value, input.double())


def timed(device):
    scores = torch.randn(64, 1024, 1024, device=device, dtype=torch.float16)
    mask = torch.ones(1024, 1024, device=device, dtype=torch.bool).triu(1)
    return (scores, mask, -torch.inf), masked_fill, torch.masked_fill

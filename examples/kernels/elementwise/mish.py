"""Mish.

output = input * tanh(log(1 + exp(input))), element by element

With e = exp(input) the hyperbolic tangent is e * (e + 2) / (e * (e + 2) + 2). Misra, "Mish: A Self Regularized
Non-Monotonic Activation Function", 2019.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def application(input, output):
    wide = input.to(ntl.float32)
    e = ntl.exp(ntl.minimum(wide, 20.0))  # beyond, the tangent is 1
    output = wide * (e * (e + 2) / (e * (e + 2) + 2))


kernel = ninetoothed.make(arrange.blocks, application, (Tensor(2), Tensor(2)), kernel_name="mish")


def mish(input):
    output = torch.empty_like(input)
    kernel(input, output)
    return output


def check(device):
    for rows, columns, dtype in ((7, 33, torch.float32), (300, 41, torch.float16), (0, 5, torch.bfloat16)):
        input = (10 * torch.randn(rows, 2 * columns, device=device)).to(dtype)[:, ::2]
        yield mish(input), F.mish(input.double())


def timed(device):
    return (torch.randn(4096, 4096, device=device, dtype=torch.float16),), mish, F.mish

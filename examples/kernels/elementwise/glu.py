"""Gated linear unit.

output[i, j] = input[i, j] * sigmoid(input[i, j + n]), for rows of 2 n elements

Dauphin and others, "Language Modeling with Gated Convolutional Networks", 2017.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(input, output):
    return arrange.halves(input), *arrange.rows(output)


def application(input, output):
    output = input[0].to(ntl.float32) * ntl.sigmoid(input[1].to(ntl.float32))


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2)), kernel_name="glu")


def glu(input):
    output = input.new_empty(input.shape[0], input.shape[1] // 2)
    kernel(input, output)
    return output


def check(device):
    for rows, columns, dtype in ((3, 26, torch.float32), (65, 200, torch.float16), (0, 8, torch.float32)):
        input = torch.randn(rows, 2 * columns, device=device).to(dtype)[:, ::2]
        yield glu(input), F.glu(input.double())


def timed(device):
    return (torch.randn(4096, 8192, device=device, dtype=torch.bfloat16),), glu, F.glu

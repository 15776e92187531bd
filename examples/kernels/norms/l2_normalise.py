"""L2 normalisation of rows.

output[i, j] = input[i, j] / max(|input[i]|, eps), where |input[i]| is the Euclidean norm of the row
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def application(input, eps, output):
    row = input.to(ntl.float32)
    output = row / ntl.maximum(ntl.sqrt(ntl.sum(row * row)), eps)


kernel = ninetoothed.make(arrange.rows, application, (Tensor(2), Tensor(0), Tensor(2)), kernel_name="l2_normalise")


def l2_normalise(input, eps=1e-12):
    output = torch.empty_like(input)
    kernel(input, eps, output)
    return output


def check(device):
    for rows, columns, dtype in ((5, 27, torch.float32), (33, 1000, torch.float16), (3, 1, torch.bfloat16)):
        input = torch.randn(rows, 2 * columns, device=device).to(dtype)[:, ::2]
        yield l2_normalise(input), input.double() / input.double().pow(2).sum(1, keepdim=True).sqrt()
    yield l2_normalise(torch.zeros(2, 5, device=device)), torch.zeros(2, 5, device=device).double()


def timed(device):
    return (torch.randn(16384, 4096, device=device, dtype=torch.float16),), l2_normalise, F.normalize

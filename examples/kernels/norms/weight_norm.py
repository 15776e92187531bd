"""Weight norm.

output[i, j] = magnitude[i] * direction[i, j] / |direction[i]|

Salimans and Kingma, "Weight Normalization: A Simple Reparameterization to Accelerate Training", 2016.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(direction, magnitude, output):
    direction, output = arrange.rows(direction, output)
    return direction, magnitude.tile(None), output


def application(direction, magnitude, output):
    row = direction.to(ntl.float32)
    output = row * (magnitude.to(ntl.float32) * ntl.rsqrt(ntl.sum(row * row)))


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(1), Tensor(2)), kernel_name="weight_norm")


def weight_norm(direction, magnitude):
    output = torch.empty_like(direction)
    kernel(direction, magnitude, output)
    return output


def check(device):
    for rows, columns, dtype in ((5, 27, torch.float32), (33, 1000, torch.float16), (3, 1, torch.float32)):
        direction, magnitude = torch.randn(rows, columns, device=device).to(dtype), torch.rand(rows, device=device)
        norm = direction.double().pow(2).sum(1).sqrt()
        yield weight_norm(direction, magnitude), (magnitude.double() / norm)[:, None] * direction.double()


def timed(device):
    def eager(direction, magnitude):
        return torch._weight_norm(direction, magnitude[:, None], 0)

    return (torch.randn(8192, 4096, device=device), torch.rand(8192, device=device)), weight_norm, eager

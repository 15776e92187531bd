"""Linear interpolation.

output = start + weight * (end - start), element by element

From a weight of a half on it is end - (1 - weight) * (end - start), so that a weight of 1 gives the end itself.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def application(start, end, weight, output):
    first, last, share = start.to(ntl.float32), end.to(ntl.float32), weight.to(ntl.float32)
    output = ntl.where(share < 0.5, first + share * (last - first), last - (1 - share) * (last - first))


tensors = (Tensor(2), Tensor(2), Tensor(2), Tensor(2))
kernel = ninetoothed.make(arrange.blocks, application, tensors, kernel_name="lerp")


def lerp(start, end, weight):
    output = torch.empty_like(start)
    kernel(start, end, weight.expand(start.shape), output)
    return output


def check(device):
    for rows, columns, dtype in ((5, 27, torch.float32), (33, 65, torch.float16), (3, 0, torch.float32)):
        start, end = torch.randn(2, rows, columns, device=device).to(dtype)
        weight = torch.rand(columns, device=device).to(dtype)
        expected = (1 - weight.double()) * start.double() + weight.double() * end.double()
        yield lerp(start, end, weight), expected
        yield lerp(start, end, torch.ones_like(weight)), end.double()


def timed(device):
    return tuple(torch.rand(4096, 4096, device=device) for _ in range(3)), lerp, torch.lerp

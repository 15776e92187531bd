"""A Walsh-Hadamard transform of rows of 2^m numbers, in m steps of sums and differences.

y[k] = sum over n of (-1)^(number of ones in k & n) * x[n] / sqrt(2^m)

Step s joins numbers that are 2^s apart. Source: Fino and Algazi, "Unified matrix treatment of the fast Walsh-Hadamard
transform", 1976; before quantisation, Ashkboos and others, "QuaRot: outlier-free 4-bit inference in rotated LLMs",
2024.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def application(x, y):
    size = x.shape[0]
    values, steps = x.to(ntl.float32), [2**s for s in range(20) if 2**s < size]

    for step in steps:
        pairs = ntl.permute(ntl.reshape(values, (size // (2 * step), 2, step)), (0, 2, 1))
        a, b = ntl.split(pairs)
        values = ntl.reshape(ntl.permute(ntl.join(a + b, a - b), (0, 2, 1)), (size,))

    y = values * size**-0.5


known = (None, {"constexpr": True})
tensors = Tensor(2, shape_options=known), Tensor(2, shape_options=known)
kernel = ninetoothed.make(arrange.rows, application, tensors, kernel_name="walsh_hadamard")


def matrix(size, device, dtype):
    """The matrix of the transform: each doubling puts four copies together."""
    found = torch.ones(1, 1, device=device, dtype=dtype)
    while len(found) < size:
        found = torch.cat([torch.cat([found, found], 1), torch.cat([found, -found], 1)])
    return found * size**-0.5


def reference(x):
    return x @ matrix(x.shape[1], x.device, x.dtype)


def walsh_hadamard(x):
    y = torch.empty_like(x)
    kernel(x, y)
    return y


def check(device):
    for rows, size, dtype in (
        (3, 16, torch.float32),
        (2, 256, torch.float16),
        (1, 1, torch.float32),
        (0, 8, torch.float32),
    ):
        x = torch.randn(rows, 2 * size, device=device).to(dtype)[:, ::2]
        yield walsh_hadamard(x), reference(x.double())


def timed(device):
    return (torch.randn(16384, 4096, device=device, dtype=torch.float16),), walsh_hadamard, reference

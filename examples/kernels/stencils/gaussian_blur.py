"""A blur of 5 by 5 elements, whose weights are a Gaussian's.

y[i, j] = sum over a, b from -2 to 2 of w(a) w(b) x[i + a, j + b],  w(a) = exp(-a^2 / (2 sigma^2)) / sum of these

Source: OpenCV's `GaussianBlur`. Beyond the edges are zeros. Lists are Python's: loops over them are unrolled when the
application is compiled; the weights are numbers of the call.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange, block_size


def arrangement(x, sigma, y, ROWS=block_size(1, 32), COLUMNS=block_size()):
    return arrange.neighbours(x, (ROWS, COLUMNS), reach=2), sigma, y.tile(None, ROWS, COLUMNS)


def application(x, sigma, y):
    weights = [ntl.exp(-(a * a) / (2 * sigma * sigma)) for a in range(-2, 3)]
    total = ntl.zeros(y.shape, dtype=ntl.float32)

    for i in ntl.static_range(5):
        for j in ntl.static_range(5):
            total += weights[i] * weights[j] * x[i, j]

    y = total / (sum(weights) * sum(weights))


kernel = ninetoothed.make(arrangement, application, (Tensor(3), Tensor(0), Tensor(3)), kernel_name="gaussian_blur")


def reference(x, sigma):
    weights = torch.exp(-(torch.arange(-2, 3, device=x.device).to(x.dtype) ** 2) / (2 * sigma**2))
    weights = weights / weights.sum()
    return F.conv2d(x[:, None], weights.outer(weights)[None, None], padding=2)[:, 0]


def gaussian_blur(x, sigma):
    y = torch.empty_like(x)
    kernel(x, sigma, y)
    return y


def check(device):
    for shape, sigma in (((2, 33, 70), 1.0), ((1, 1, 5), 0.4), ((3, 4, 1), 3.0)):
        x = torch.randn(*shape, device=device)
        yield gaussian_blur(x, sigma), reference(x.double(), sigma)
    x = torch.randn(50, 41, 3, device=device, dtype=torch.float16).permute(2, 0, 1)
    yield gaussian_blur(x, 1.0), reference(x.double(), 1.0)


def timed(device):
    return (torch.randn(16, 2048, 2048, device=device, dtype=torch.float16), 1.0), gaussian_blur, reference

"""A discrete cosine transform of rows, orthonormal: a product with a matrix that is computed, never read.

y[r, k] = f(k) * sum over n of x[r, n] * cos(pi (2 n + 1) k / (2 N)),  f(0) = sqrt(1 / N), else f(k) = sqrt(2 / N)

Source: Ahmed, Natarajan and Rao, "Discrete cosine transform", 1974.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size


def arrangement(x, y, M=block_size(16, 64), N=block_size(16, 64), K=block_size(32, 32)):
    y = y.tile(M, N)
    return x.tile(M, K, loop=1).expand(-1, y.shape[1]), y


def application(x, y):
    size, k = x.source.shape[1], y.offsets(1)[None, :]
    total = ntl.zeros(y.shape, dtype=ntl.float32)

    for i in range(x.shape[0]):
        n = x[i].offsets(1)[:, None]
        turn = (2 * n + 1) * k % (4 * size)  # of a whole number: a large angle would lose digits
        cosines = ntl.cos(turn * (1.5707963267948966 / size))
        total += ntl.dot(x[i], cosines.to(x.dtype.dtype))

    y = total * ntl.sqrt(ntl.where(k == 0, 1.0, 2.0) / size)


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2)), kernel_name="dct")


def reference(x):
    n = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)
    matrix = torch.cos(torch.pi * (2 * n[:, None] + 1) * n / (2 * len(n))) * (2 / len(n)) ** 0.5
    matrix[:, 0] *= 0.5**0.5
    return x @ matrix


def dct(x):
    y = torch.empty_like(x)
    kernel(x, y)
    return y


def check(device):
    for rows, size, dtype in ((5, 30, torch.float32), (40, 100, torch.float16), (1, 1, torch.float32)):
        x = torch.randn(size, rows, device=device).to(dtype).T
        yield dct(x), reference(x.double())


def timed(device):
    return (torch.randn(16384, 1024, device=device),), dct, reference

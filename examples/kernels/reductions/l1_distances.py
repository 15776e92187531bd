"""City-block distances of all pairs of rows.

output[i, j] = sum over k of |x[i, k] - y[j, k]|

It is arranged like a matrix product, but no tensor core adds up absolute differences: a program loops over blocks of
a few columns, of which each pair of rows makes a cube.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor


def arrangement(x, y, output, M=32, N=32, K=4):
    output = output.tile(M, N)
    x = x.tile(M, K, loop=1).expand(-1, output.shape[1])
    y = y.tile(N, K, loop=1).permute(1, 0).expand(output.shape[0], -1)
    return x, y, output


def application(x, y, output):
    total = ntl.zeros(output.shape, dtype=ntl.float32)

    for k in range(x.shape[0]):
        difference = x[k].to(ntl.float32)[:, None, :] - y[k].to(ntl.float32)[None, :, :]
        total += ntl.sum(ntl.abs(difference), axis=2)

    output = total


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2), Tensor(2)), kernel_name="l1_distances")


def l1_distances(x, y):
    output = x.new_empty(x.shape[0], y.shape[0])
    kernel(x, y, output)
    return output


def check(device):
    for m, n, k, dtype in ((7, 37, 9, torch.float32), (65, 33, 30, torch.float16), (3, 5, 0, torch.float32)):
        x, y = torch.randn(m, k, device=device).to(dtype), torch.randn(k, n, device=device).to(dtype).T
        yield l1_distances(x, y), (x.double()[:, None] - y.double()).abs().sum(2)


def timed(device):
    x, y = torch.randn(2, 2048, 256, device=device)
    return (x, y), l1_distances, lambda x, y: torch.cdist(x, y, p=1)

"""A transposed matrix, copied.

y[i, j] = x[j, i]

Source: PyTorch's `x.T.contiguous()`. `permute` in the arrangement moves nothing; the store of its tile does.
"""

import torch

import ninetoothed
from ninetoothed import Tensor, block_size


def arrangement(x, y, M=block_size(upper_bound=64), N=block_size(upper_bound=64)):
    return x.permute(1, 0).tile(M, N), y.tile(M, N)


def application(x, y):
    y = x


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2)), kernel_name="transpose")


def transpose(x):
    y = x.new_empty(x.shape[1], x.shape[0])
    kernel(x, y)
    return y


def check(device):
    for shape in ((33, 70), (1, 3), (0, 4)):
        x = torch.randn(*shape, device=device)
        yield transpose(x), x.double().T
    x = torch.randint(0, 256, (33, 80), device=device, dtype=torch.uint8)[:, ::2]
    yield transpose(x), x.T


def timed(device):
    return (torch.randn(8192, 8192, device=device, dtype=torch.float16),), transpose, lambda x: x.T.contiguous()

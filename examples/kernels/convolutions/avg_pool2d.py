"""The mean of each window, whose padding counts as zeros.

y[n, c, p, q] = sum over i, j of x[n, c, p * stride + i - padding, q * stride + j - padding] / window^2

Source: PyTorch's `avg_pool2d`. A program has many windows side by side, and loops over their elements.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Symbol, Tensor, arrange, block_size

WINDOW, STRIDE, PADDING = (Symbol(name, constexpr=True) for name in ("WINDOW", "STRIDE", "PADDING"))


def arrangement(x, y, BLOCK=block_size()):
    x = arrange.windows(x, (WINDOW, WINDOW), stride=STRIDE, padding=PADDING, block=(1, BLOCK))
    return x, y.tile(None, None, 1, BLOCK)  # (n, c, p, blocks), (WINDOW, WINDOW), (1, BLOCK)


def application(x, y):
    total = ntl.zeros(y.shape, dtype=ntl.float32)

    for i in range(WINDOW):
        for j in range(WINDOW):
            total += x[i, j]

    y = total / (WINDOW * WINDOW)


kernel = ninetoothed.make(arrangement, application, (Tensor(4), Tensor(4)), kernel_name="avg_pool2d")


def avg_pool2d(x, window, stride, padding=0):
    sizes = ((size + 2 * padding - window) // stride + 1 for size in x.shape[2:])
    y = x.new_empty(*x.shape[:2], *sizes)
    kernel(x, y, WINDOW=window, STRIDE=stride, PADDING=padding)
    return y


def check(device):
    for shape, *options in (((1, 2, 9, 7), 3, 2, 1), ((1, 2, 8, 40), 2, 2, 0), ((0, 2, 5, 5), 3, 1, 1)):
        x = torch.randn(*shape, device=device)
        yield avg_pool2d(x, *options), F.avg_pool2d(x.double(), *options)
    x = torch.randn(2, 11, 13, 3, device=device, dtype=torch.bfloat16).permute(0, 3, 1, 2)[..., ::2]
    yield avg_pool2d(x, 3, 1, 1), F.avg_pool2d(x.double(), 3, 1, 1)


def timed(device):
    x = torch.randn(64, 64, 112, 112, device=device, dtype=torch.float16)
    return (x,), lambda x: avg_pool2d(x, 3, 2, 1), lambda x: F.avg_pool2d(x, 3, 2, 1)

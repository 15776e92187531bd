"""The greatest element of each window.

y[n, c, p, q] = max over i, j of x[n, c, p * stride + i - padding, q * stride + j - padding]

Source: PyTorch's `max_pool2d`. Beyond the edges is -inf, which `other=` says.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Symbol, Tensor, arrange, block_size

WINDOW, STRIDE, PADDING = (Symbol(name, constexpr=True) for name in ("WINDOW", "STRIDE", "PADDING"))


def arrangement(x, y, BLOCK=block_size()):
    windows = arrange.windows(x, (WINDOW, WINDOW), stride=STRIDE, padding=PADDING)  # (n, c, p, q), (WINDOW, WINDOW)
    windows = windows.flatten().tile(BLOCK)  # (blocks,), (BLOCK,), (WINDOW, WINDOW)
    windows.dtype = windows.dtype.ravel().flatten(1)  # (blocks,), (BLOCK, WINDOW * WINDOW)
    return windows, y.flatten().tile(BLOCK)


def application(x, y):
    y = ntl.max(x, axis=1)


kernel = ninetoothed.make(
    arrangement, application, (Tensor(4, other=float("-inf")), Tensor(4)), kernel_name="max_pool2d"
)


def max_pool2d(x, window, stride, padding=0):
    sizes = ((size + 2 * padding - window) // stride + 1 for size in x.shape[2:])
    y = x.new_empty(*x.shape[:2], *sizes)
    kernel(x, y, WINDOW=window, STRIDE=stride, PADDING=padding)
    return y


def check(device):
    for shape, *options in (((2, 3, 9, 7), 3, 2, 1), ((1, 2, 8, 8), 2, 2, 0), ((0, 3, 5, 5), 3, 1, 1)):
        x = torch.randn(*shape, device=device)
        yield max_pool2d(x, *options), F.max_pool2d(x.double(), *options)
    x = torch.randn(2, 11, 13, 3, device=device, dtype=torch.float16).permute(0, 3, 1, 2)[..., ::2]
    yield max_pool2d(x, 3, 1, 1), F.max_pool2d(x.double(), 3, 1, 1)


def timed(device):
    x = torch.randn(64, 64, 112, 112, device=device, dtype=torch.float16)
    return (x,), lambda x: max_pool2d(x, 3, 2, 1), lambda x: F.max_pool2d(x, 3, 2, 1)

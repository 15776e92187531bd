"""Windows as columns, which is im2col.

y[n, (c, r, s), (p, q)] = x[n, c, p * stride + r - padding, q * stride + s - padding]

Source: PyTorch's `unfold`. The arrangement is all of it: the application copies.
"""

import torch
import torch.nn.functional as F

import ninetoothed
from ninetoothed import Symbol, Tensor, arrange, block_size

WINDOW, STRIDE, PADDING = (Symbol(name, constexpr=True) for name in ("WINDOW", "STRIDE", "PADDING"))


def arrangement(x, y, BLOCK=block_size()):
    x = arrange.windows(x, (WINDOW, WINDOW), stride=STRIDE, padding=PADDING)  # (n, c, p, q), (WINDOW, WINDOW)
    x = x.ravel().permute(0, 1, 4, 5, 2, 3).flatten(4).flatten(1, 4)  # (n, c * WINDOW * WINDOW, p * q)
    return x.tile(None, 1, BLOCK), y.tile(None, 1, BLOCK)


def application(x, y):
    y = x


kernel = ninetoothed.make(arrangement, application, (Tensor(4), Tensor(3)), kernel_name="unfold")


def unfold(x, window, stride=1, padding=0):
    down, across = ((size + 2 * padding - window) // stride + 1 for size in x.shape[2:])
    y = x.new_empty(x.shape[0], x.shape[1] * window * window, down * across)
    kernel(x, y, WINDOW=window, STRIDE=stride, PADDING=padding)
    return y


def check(device):
    for shape, window, stride, padding in (((1, 2, 9, 7), 3, 2, 1), ((1, 2, 8, 8), 2, 2, 0), ((0, 3, 5, 5), 3, 1, 1)):
        x = torch.randn(*shape, device=device)
        expected = F.unfold(x.double(), window, stride=stride, padding=padding)
        yield unfold(x, window, stride, padding), expected
    x = torch.randn(2, 11, 13, 3, device=device, dtype=torch.float16).permute(0, 3, 1, 2)[..., ::2]
    yield unfold(x, 3, 1, 1), F.unfold(x.double(), 3, padding=1)


def timed(device):
    x = torch.randn(16, 64, 56, 56, device=device, dtype=torch.float16)
    return (x,), lambda x: unfold(x, 3, 1, 1), lambda x: F.unfold(x, 3, padding=1)

"""Product of complex numbers, stored as pairs.

(a + b i) * (c + d i) = (a c - b d) + (a d + b c) i, element by element

Each program takes a block of real and a block of imaginary parts, which lie in turns in memory.
"""

import torch

import ninetoothed
from ninetoothed import Tensor, block_size


def arrangement(x, y, z, BLOCK=block_size()):
    return tuple(pairs.tile(BLOCK, None, loop=1).squeeze(1) for pairs in (x, y, z))  # (blocks,), (2,), (BLOCK,)


def application(x, y, z):
    z[0] = x[0] * y[0] - x[1] * y[1]
    z[1] = x[0] * y[1] + x[1] * y[0]


tensors = tuple(Tensor(shape=(None, 2)) for _ in range(3))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="complex_product")


def complex_product(x, y):
    output = torch.empty_like(x)
    kernel(*(torch.view_as_real(each) for each in (x, y, output)))
    return output


def check(device):
    for size in (5, 1000, 0):
        x, y = torch.randn(2, 2 * size, device=device, dtype=torch.complex64)[:, ::2]
        expected = x.to(torch.complex128) * y.to(torch.complex128)
        yield torch.view_as_real(complex_product(x, y)), torch.view_as_real(expected)


def timed(device):
    return torch.randn(2, 2**23, device=device, dtype=torch.complex64).unbind(), complex_product, torch.mul

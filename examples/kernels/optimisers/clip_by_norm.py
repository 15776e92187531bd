"""Clip a gradient by its norm, in place, and tell the norm.

gradient = gradient * min(1, largest / (norm + 1e-6)), with norm = sqrt(sum over i of gradient[i]^2)

Two launches: `squares` sums up parts; each program of `kernel` adds them up, all in one order, and scales its block.
Nothing is read back to the host, and nothing is atomic. Pascanu, Mikolov and Bengio, "On the difficulty of training
Recurrent Neural Networks", 2012.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

PART = 16384


def squares_arrangement(gradient, parts):
    return gradient.tile(PART), parts.tile(None)


def squares_application(gradient, parts):
    wide = gradient.to(ntl.float32)
    parts = ntl.sum(wide * wide)


def arrangement(gradient, parts, largest, norm):
    gradient = gradient.tile(4096)
    return gradient, arrange.whole(parts, gradient.shape), largest, norm.tile(1).expand(gradient.shape)


def application(gradient, parts, largest, norm):
    total = ntl.sqrt(ntl.sum(parts))
    gradient = gradient.to(ntl.float32) * ntl.minimum(1.0, largest / (total + 1e-6))

    if ntl.program_id(0) == 0:
        norm = total


squares = ninetoothed.make(squares_arrangement, squares_application, (Tensor(1), Tensor(1)), kernel_name="squares")
tensors = (Tensor(1), Tensor(1), Tensor(0), Tensor(shape=(1,)))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="clip_by_norm")


def clip_by_norm(gradient, largest):
    """Clip a vector; its parts, of 16384 elements each, must fit in one tile."""
    parts, norm = torch.empty((len(gradient) + PART - 1) // PART, device=gradient.device), gradient.new_empty(1)
    squares(gradient, parts)
    kernel(gradient, parts, largest, norm)
    return gradient, norm


def check(device):
    for size, largest, dtype in ((5000, 1.0, torch.float32), (40000, 3.0, torch.float16), (7, 100.0, torch.float32)):
        gradient = torch.randn(2 * size, device=device).to(dtype)[::2]
        norm = gradient.double().pow(2).sum().sqrt()[None]
        expected = gradient.double() * (largest / (norm + 1e-6)).clamp(max=1)
        yield from zip(clip_by_norm(gradient, largest), (expected, norm))


def timed(device):
    def eager(gradient, largest):
        norm = torch.linalg.vector_norm(gradient)
        return gradient.mul_((largest / (norm + 1e-6)).clamp(max=1.0)), norm[None]

    return (torch.randn(2**25, device=device), 1.0), clip_by_norm, eager

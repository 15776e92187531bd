"""A step of Lion, in place.

weight = (1 - rate * decay) * weight - rate * sign(beta1 * momentum + (1 - beta1) * gradient)
momentum = beta2 * momentum + (1 - beta2) * gradient

Chen and others, "Symbolic Discovery of Optimization Algorithms", 2023.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def application(weight, gradient, momentum, rate, beta1, beta2, decay):
    slope, before = gradient.to(ntl.float32), momentum.to(ntl.float32)
    moved = beta1 * before + (1 - beta1) * slope
    sign = (moved > 0).to(ntl.float32) - (moved < 0).to(ntl.float32)
    weight = (1 - rate * decay) * weight.to(ntl.float32) - rate * sign
    momentum = beta2 * before + (1 - beta2) * slope


tensors = (*(Tensor(1) for _ in range(3)), *(Tensor(0) for _ in range(4)))
kernel = ninetoothed.make(arrange.blocks, application, tensors, kernel_name="lion")


def lion(weight, gradient, momentum, rate=1e-2, betas=(0.9, 0.99), decay=0.1):
    kernel(weight, gradient, momentum, rate, *betas, decay)
    return weight, momentum


def check(device):
    for size, dtype in ((100, torch.float32), (1033, torch.bfloat16), (0, torch.float32)):
        weight, gradient, momentum = torch.randn(3, 2 * size, device=device).to(dtype)[:, ::2]
        expected = eager(*(each.double().clone() for each in (weight, gradient, momentum)))
        yield from zip(lion(weight, gradient, momentum), expected)


def eager(weight, gradient, momentum, rate=1e-2, betas=(0.9, 0.99), decay=0.1):
    sign = momentum.lerp(gradient, 1 - betas[0]).sign_()
    return weight.mul_(1 - rate * decay).sub_(rate * sign), momentum.lerp_(gradient, 1 - betas[1])


def timed(device):
    return tuple(torch.randn(3, 2**25, device=device)), lion, eager

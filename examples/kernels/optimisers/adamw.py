"""A step of AdamW, in place.

first = beta1 * first + (1 - beta1) * gradient
second = beta2 * second + (1 - beta2) * gradient^2
weight = (1 - rate * decay) * weight - rate * (first / c1) / (sqrt(second / c2) + eps)

Here c1 = 1 - beta1^t and c2 = 1 - beta2^t at step t. Loshchilov and Hutter, "Decoupled Weight Decay Regularization",
2017.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def application(weight, gradient, first, second, rate, beta1, beta2, c1, c2, eps, decay):
    slope = gradient.to(ntl.float32)
    mean = beta1 * first + (1 - beta1) * slope
    square = beta2 * second + (1 - beta2) * slope * slope
    step = mean / c1 / (ntl.sqrt(square / c2) + eps)
    first, second = mean, square
    weight = (1 - rate * decay) * weight.to(ntl.float32) - rate * step


tensors = (*(Tensor(1) for _ in range(4)), *(Tensor(0) for _ in range(7)))
kernel = ninetoothed.make(arrange.blocks, application, tensors, kernel_name="adamw")


def adamw(weight, gradient, first, second, t, rate=1e-3, betas=(0.9, 0.999), eps=1e-8, decay=0.01):
    corrections = (1 - beta**t for beta in betas)
    kernel(weight, gradient, first, second, rate, *betas, *corrections, eps, decay)
    return weight, first, second


def check(device):
    for size, t, dtype in ((100, 1, torch.float32), (1033, 7, torch.float16), (0, 2, torch.float32)):
        weight, gradient = torch.randn(2, 2 * size, device=device).to(dtype)[:, ::2]
        first, second = torch.randn(size, device=device), torch.rand(size, device=device)
        expected = eager(*(each.double().clone() for each in (weight, gradient, first, second)), t)
        yield from zip(adamw(weight, gradient, first, second, t), expected)


def eager(weight, gradient, first, second, t, rate=1e-3, betas=(0.9, 0.999), eps=1e-8, decay=0.01):
    weight.mul_(1 - rate * decay)
    first.lerp_(gradient, 1 - betas[0])
    second.mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
    denominator = (second / (1 - betas[1] ** t)).sqrt_().add_(eps)
    return weight.addcdiv_(first, denominator, value=-rate / (1 - betas[0] ** t)), first, second


def timed(device):
    weight, gradient, first = torch.randn(3, 2**25, device=device)
    return (weight, gradient, first, torch.rand(2**25, device=device), 10), adamw, eager

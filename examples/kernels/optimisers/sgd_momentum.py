"""A step of stochastic gradient descent with momentum and weight decay, in place.

velocity = momentum * velocity + gradient + decay * weight
weight = weight - rate * velocity

With Nesterov's momentum the weight moves by gradient + decay * weight + momentum * velocity instead. Sutskever and
others, "On the importance of initialization and momentum in deep learning", 2013.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def application(weight, gradient, velocity, rate, momentum, decay, nesterov):
    slope = gradient.to(ntl.float32) + decay * weight.to(ntl.float32)
    moved = momentum * velocity + slope
    step = slope + momentum * moved if nesterov else moved
    velocity = moved
    weight = weight.to(ntl.float32) - rate * step


tensors = (*(Tensor(1) for _ in range(3)), *(Tensor(0) for _ in range(3)), Tensor(0, constexpr=True))
kernel = ninetoothed.make(arrange.blocks, application, tensors, kernel_name="sgd_momentum")


def sgd_momentum(weight, gradient, velocity, rate, momentum=0.9, decay=0.0, nesterov=False):
    kernel(weight, gradient, velocity, rate, momentum, decay, nesterov)
    return weight, velocity


def check(device):
    for size, nesterov, dtype in ((100, False, torch.float32), (1033, True, torch.float16), (0, True, torch.float32)):
        weight, gradient = torch.randn(2, 2 * size, device=device).to(dtype)[:, ::2]
        velocity = torch.randn(size, device=device)
        given = [each.double().clone() for each in (weight, gradient, velocity)]
        expected = eager(*given, 0.1, 0.9, 0.01, nesterov)
        yield from zip(sgd_momentum(weight, gradient, velocity, 0.1, 0.9, 0.01, nesterov), expected)


def eager(weight, gradient, velocity, rate, momentum=0.9, decay=0.0, nesterov=False):
    gradient = gradient + decay * weight
    velocity.mul_(momentum).add_(gradient)
    return weight.sub_(rate * (gradient + momentum * velocity if nesterov else velocity)), velocity


def timed(device):
    return (*torch.randn(3, 2**25, device=device), 0.1, 0.9, 0.01), sgd_momentum, eager

"""Huber loss, added up for each row.

loss[i] = sum over j of h(input[i, j] - target[i, j])
h(d) = d^2 / 2 where |d| <= delta, else delta * (|d| - delta / 2)

Huber, "Robust Estimation of a Location Parameter", 1964.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(input, target, delta, loss):
    return *arrange.rows(input, target), delta, loss.tile(None)


def application(input, target, delta, loss):
    distance = ntl.abs(input.to(ntl.float32) - target.to(ntl.float32))
    near = ntl.minimum(distance, delta)
    loss = ntl.sum(near * (distance - near / 2))


tensors = (Tensor(2), Tensor(2), Tensor(0), Tensor(1))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="huber")


def huber(input, target, delta=1.0):
    loss = torch.empty(input.shape[0], device=input.device)
    kernel(input, target, delta, loss)
    return loss


def check(device):
    for rows, columns, delta, dtype in (
        (5, 27, 1.0, torch.float32),
        (33, 500, 0.3, torch.float16),
        (2, 1, 2, torch.float32),
    ):
        input = torch.randn(rows, 2 * columns, device=device).to(dtype)[:, ::2]
        target = torch.randn(rows, columns, device=device).to(dtype)
        yield huber(input, target, delta), F.huber_loss(input.double(), target.double(), "none", delta).sum(1)


def timed(device):
    def eager(input, target):
        return F.huber_loss(input, target, reduction="none").sum(1)

    return torch.randn(2, 16384, 4096, device=device).unbind(), huber, eager

"""Cosine embedding loss.

loss[i] = 1 - cos[i] where target[i] is 1, max(cos[i] - margin, 0) where it is -1

Here cos[i] = x[i] . y[i] / sqrt((|x[i]|^2 + eps) * (|y[i]|^2 + eps)), as in PyTorch.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange

EPS = 1e-12


def arrangement(x, y, target, margin, loss):
    return *arrange.rows(x, y), target.tile(None), margin, loss.tile(None)


def application(x, y, target, margin, loss):
    first, second = x.to(ntl.float32), y.to(ntl.float32)
    squares = (ntl.sum(first * first) + EPS) * (ntl.sum(second * second) + EPS)
    cosine = ntl.sum(first * second) * ntl.rsqrt(squares)
    loss = ntl.where(target == 1, 1 - cosine, ntl.maximum(cosine - margin, 0.0))


tensors = (Tensor(2), Tensor(2), Tensor(1), Tensor(0), Tensor(1))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="cosine_embedding")


def cosine_embedding(x, y, target, margin=0.0):
    loss = torch.empty(x.shape[0], device=x.device)
    kernel(x, y, target, margin, loss)
    return loss


def check(device):
    for rows, columns, margin, dtype in ((5, 27, 0.0, torch.float32), (65, 300, 0.2, torch.float16)):
        x, y = torch.randn(2, rows, columns, device=device).to(dtype)
        y = (x + y)[:, : columns // 2]
        x = x[:, : columns // 2]
        target = 2 * torch.randint(0, 2, (rows,), device=device) - 1
        expected = F.cosine_embedding_loss(x.double(), y.double(), target, margin, reduction="none")
        yield cosine_embedding(x, y, target, margin), expected


def timed(device):
    def eager(x, y, target):
        return F.cosine_embedding_loss(x, y, target, reduction="none")

    x, y = torch.randn(2, 16384, 1024, device=device)
    return (x, y, 2 * torch.randint(0, 2, (16384,), device=device) - 1), cosine_embedding, eager

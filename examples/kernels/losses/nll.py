"""Negative log-likelihood, with a weight for each class.

loss[i] = -weight[target[i]] * scores[i, target[i]], and 0 where target[i] is `ignored`

Of each row one element is read. Targets must be classes, or `ignored`.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange, block_size


def arrangement(scores, weight, target, ignored, loss, BLOCK=block_size()):
    target, loss = target.tile(BLOCK), loss.tile(BLOCK)
    return arrange.whole(scores, loss.shape), arrange.whole(weight, loss.shape), target, ignored, loss


def application(scores, weight, target, ignored, loss):
    scored = scores.source[target.offsets(0), target].to(ntl.float32)
    loss = ntl.where(target == ignored, 0.0, -scored * weight.source[target].to(ntl.float32))


tensors = (Tensor(2), Tensor(1), Tensor(1), Tensor(0), Tensor(1))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="nll")


def nll(scores, weight, target, ignored=-100):
    loss = scores.new_empty(scores.shape[0])
    kernel(scores, weight, target, ignored, loss)
    return loss


def check(device):
    for rows, classes, dtype in ((5, 7, torch.float32), (1000, 33, torch.float16), (0, 3, torch.float32)):
        scores = torch.randn(classes, rows, device=device).to(dtype).T
        weight = torch.rand(classes, device=device).to(dtype)
        target = torch.randint(0, classes, (rows,), device=device)
        target[::5] = -100
        yield nll(scores, weight, target), F.nll_loss(scores.double(), target, weight.double(), reduction="none")


def timed(device):
    def eager(scores, weight, target):
        return F.nll_loss(scores, target, weight, reduction="none")

    target = torch.randint(0, 1000, (2**20,), device=device)
    return (torch.randn(2**20, 1000, device=device), torch.rand(1000, device=device), target), nll, eager

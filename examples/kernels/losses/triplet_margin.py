"""Triplet margin loss.

loss[i] = max(|anchor[i] - positive[i] + eps| - |anchor[i] - negative[i] + eps| + margin, 0), with Euclidean norms

Schroff, Kalenichenko and Philbin, "FaceNet: A Unified Embedding for Face Recognition and Clustering", 2015.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(anchor, positive, negative, margin, loss):
    return *arrange.rows(anchor, positive, negative), margin, loss.tile(None)


def distance(x, y):
    difference = x.to(ntl.float32) - y.to(ntl.float32) + 1e-6
    return ntl.sqrt(ntl.sum(difference * difference))


def application(anchor, positive, negative, margin, loss):
    loss = ntl.maximum(distance(anchor, positive) - distance(anchor, negative) + margin, 0.0)


tensors = (Tensor(2), Tensor(2), Tensor(2), Tensor(0), Tensor(1))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="triplet_margin")


def triplet_margin(anchor, positive, negative, margin=1.0):
    loss = torch.empty(anchor.shape[0], device=anchor.device)
    kernel(anchor, positive, negative, margin, loss)
    return loss


def check(device):
    for rows, columns, margin, dtype in ((5, 27, 1.0, torch.float32), (65, 300, 0.2, torch.float16)):
        anchor, positive, negative = torch.randn(3, columns, rows, device=device).to(dtype).mT
        near, far = (((anchor.double() - each.double() + 1e-6) ** 2).sum(1).sqrt() for each in (positive, negative))
        yield triplet_margin(anchor, positive, negative, margin), (near - far + margin).clamp(min=0)


def timed(device):
    def eager(*given):
        return F.triplet_margin_loss(*given, reduction="none")

    return torch.randn(3, 16384, 1024, device=device).unbind(), triplet_margin, eager

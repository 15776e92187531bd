"""Binary cross-entropy of logits, with a weight for each positive answer.

loss = -(weight * target * log(sigmoid(x)) + (1 - target) * log(1 - sigmoid(x))), element by element

With log(sigmoid(x)) = min(x, 0) - log(1 + exp(-|x|)) nothing overflows, and nothing is lost near 0 and 1.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size


def arrangement(logits, target, weight, loss, M=block_size(), N=block_size()):
    logits, target, loss = (each.tile(M, N) for each in (logits, target, loss))
    return logits, target, weight.tile(N).unsqueeze(0).expand(loss.shape[0], -1), loss


def application(logits, target, weight, loss):
    x, answer = logits.to(ntl.float32), target.to(ntl.float32)
    rest = ntl.libdevice.log1p(ntl.exp(-ntl.abs(x)))
    positive = ntl.maximum(-x, 0.0) + rest  # -log(sigmoid(x))
    negative = ntl.maximum(x, 0.0) + rest
    loss = weight.to(ntl.float32)[None, :] * answer * positive + (1 - answer) * negative


tensors = (Tensor(2), Tensor(2), Tensor(1), Tensor(2))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="bce_with_logits")


def bce_with_logits(logits, target, weight):
    loss = torch.empty_like(logits)
    kernel(logits, target, weight, loss)
    return loss


def check(device):
    for rows, columns, dtype in ((5, 27, torch.float32), (70, 33, torch.float16), (0, 3, torch.float32)):
        logits = (9 * torch.randn(columns, rows, device=device)).to(dtype).T
        target, weight = torch.rand(rows, columns, device=device).to(dtype), torch.rand(columns, device=device)
        p = logits.double().sigmoid()
        q = (-logits.double()).sigmoid()
        expected = -(weight.double() * target.double() * p.log() + (1 - target.double()) * q.log())
        yield bce_with_logits(logits, target, weight), expected


def timed(device):
    def eager(logits, target, weight):
        return F.binary_cross_entropy_with_logits(logits, target, pos_weight=weight, reduction="none")

    logits, target = torch.randn(16384, 1024, device=device), torch.rand(16384, 1024, device=device)
    return (logits, target, torch.rand(1024, device=device)), bce_with_logits, eager

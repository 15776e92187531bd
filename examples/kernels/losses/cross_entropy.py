"""Cross-entropy of long rows of logits, with label smoothing.

loss[i] = log(sum over v of exp(logits[i, v])) - (1 - s) * logits[i, target[i]] - s * mean over v of logits[i, v]

A row of the vocabulary is read once, block by block, with a peak that rises; the target's logit is read by itself.
Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Szegedy and others, "Rethinking the
Inception Architecture", 2015.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(logits, target, smoothing, loss):
    return *arrange.row_blocks(logits, BLOCK_SIZE=4096), target.tile(None), smoothing, loss.tile(None)


def application(logits, target, smoothing, loss):
    peak, total, plain = float("-inf"), 0.0, 0.0

    for v in range(logits.shape[0]):
        block = logits[v].to(ntl.float32)
        higher = ntl.maximum(peak, ntl.max(block))
        shift = ntl.where(higher == float("-inf"), 0.0, higher)  # -inf - -inf would be NaN
        total = total * ntl.exp(peak - shift) + ntl.sum(ntl.exp(block - shift))
        plain += ntl.sum(block)
        peak = higher

    chosen = logits.source[ntl.program_id(0), target].to(ntl.float32)
    spread = ntl.where(smoothing > 0, smoothing * plain / logits.source.shape[1], 0.0)  # 0 * -inf would be NaN
    loss = peak + ntl.log(total) - (1 - smoothing) * chosen - spread


tensors = (Tensor(2), Tensor(1), Tensor(0), Tensor(1))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="cross_entropy")


def cross_entropy(logits, target, smoothing=0.0):
    loss = torch.empty(logits.shape[0], device=logits.device)
    kernel(logits, target, smoothing, loss)
    return loss


def check(device):
    for rows, columns, dtype in ((3, 4100, torch.float32), (5, 9001, torch.bfloat16), (7, 11, torch.float16)):
        logits = (5 * torch.randn(rows, 2 * columns, device=device)).to(dtype)[:, ::2]
        target = torch.randint(0, columns, (rows,), device=device)
        for smoothing in (0.0, 0.1):
            expected = F.cross_entropy(logits.double(), target, reduction="none", label_smoothing=smoothing)
            yield cross_entropy(logits, target, smoothing), expected
    logits = torch.randn(2, 5000, device=device)
    logits[:, :4500] = -torch.inf
    target = torch.tensor([4600, 3], device=device)
    yield cross_entropy(logits, target), F.cross_entropy(logits.double(), target, reduction="none")


def timed(device):
    def eager(logits, target):
        return F.cross_entropy(logits.float(), target, reduction="none")

    logits = torch.randn(4096, 128256, device=device, dtype=torch.bfloat16)
    return (logits, torch.randint(0, 128256, (4096,), device=device)), cross_entropy, eager

"""`losses/cross_entropy.py` in Triton, by hand."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(
    logits_ptr,
    target_ptr,
    loss_ptr,
    columns,
    logits_row_stride,
    logits_column_stride,
    target_stride,
    smoothing,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * logits_row_stride
    peak, total, plain = float("-inf"), 0.0, 0.0

    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        mask = column < columns
        block = tl.load(logits_ptr + column * logits_column_stride, mask=mask, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(peak, tl.max(block))
        shift = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(peak - shift) + tl.sum(tl.exp(block - shift))
        plain += tl.sum(tl.where(mask, block, 0.0))
        peak = higher

    target = tl.load(target_ptr + row * target_stride)
    chosen = tl.load(logits_ptr + target * logits_column_stride).to(tl.float32)
    spread = tl.where(smoothing > 0, smoothing * plain / columns, 0.0)
    tl.store(loss_ptr + row, peak + tl.log(total) - (1 - smoothing) * chosen - spread)


def cross_entropy(logits, target, smoothing=0.0):
    rows, columns = logits.shape
    loss = torch.empty(rows, device=logits.device)
    kernel[(rows,)](
        logits, target, loss, columns, *logits.stride(), *target.stride(), smoothing, BLOCK=4096, num_warps=8
    )
    return loss

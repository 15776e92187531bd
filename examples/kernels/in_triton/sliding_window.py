"""`attention/sliding_window.py` in Triton, by hand."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    window,
    length,
    heads,
    width,
    scale,
    q_batch_stride,
    q_head_stride,
    q_row_stride,
    q_column_stride,
    k_batch_stride,
    k_head_stride,
    k_row_stride,
    k_column_stride,
    v_batch_stride,
    v_head_stride,
    v_row_stride,
    v_column_stride,
    o_batch_stride,
    o_head_stride,
    o_row_stride,
    o_column_stride,
    M: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
):
    batch, head = (tl.program_id(1) // heads).to(tl.int64), tl.program_id(1) % heads
    start = tl.program_id(0) * M
    row, d = start + tl.arange(0, M), tl.arange(0, D)
    is_row, is_inside = row < length, d < width
    q_ptrs = q_ptr + batch * q_batch_stride + head * q_head_stride
    q_ptrs += row[:, None] * q_row_stride + d[None, :] * q_column_stride
    k_ptr += batch * k_batch_stride + head * k_head_stride
    v_ptr += batch * v_batch_stride + head * v_head_stride
    q = tl.load(q_ptrs, mask=is_row[:, None] & is_inside[None, :], other=0.0)
    peak = tl.full((M,), -1e30, dtype=tl.float32)
    total = tl.zeros((M,), dtype=tl.float32)
    sums = tl.zeros((M, D), dtype=tl.float32)
    first = tl.maximum(start - window + 1, 0) // N * N

    for done in range(first, tl.minimum(start + M, length), N):
        column = done + tl.arange(0, N)
        is_column = column < length
        k_ptrs = k_ptr + column[None, :] * k_row_stride + d[:, None] * k_column_stride
        k = tl.load(k_ptrs, mask=is_inside[:, None] & is_column[None, :], other=0.0)
        is_seen = (column[None, :] <= row[:, None]) & (column[None, :] > row[:, None] - window)
        scores = tl.dot(q, k, input_precision="ieee") * scale
        scores = tl.where(is_seen & is_column[None, :], scores, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, axis=1))
        weights, decay = tl.exp(scores - higher[:, None]), tl.exp(peak - higher)
        v_ptrs = v_ptr + column[:, None] * v_row_stride + d[None, :] * v_column_stride
        v = tl.load(v_ptrs, mask=is_column[:, None] & is_inside[None, :], other=0.0)
        total = total * decay + tl.sum(weights, axis=1)
        sums = sums * decay[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        peak = higher

    o_ptrs = o_ptr + batch * o_batch_stride + head * o_head_stride
    o_ptrs += row[:, None] * o_row_stride + d[None, :] * o_column_stride
    tl.store(o_ptrs, (sums / total[:, None]).to(q.dtype), mask=is_row[:, None] & is_inside[None, :])


def sliding_window(q, k, v, window):
    batch, heads, length, width = q.shape
    o = torch.empty_like(q)
    strides = (stride for tensor in (q, k, v, o) for stride in tensor.stride())
    sizes = (window, length, heads, width, width**-0.5, *strides)
    blocks = {"M": 128, "N": 64, "D": max(triton.next_power_of_2(width), 16)}
    if q.dtype == torch.float32:
        blocks |= {"M": 64, "N": 32}
    grid = (triton.cdiv(length, blocks["M"]), batch * heads)
    kernel[grid](q, k, v, o, *sizes, **blocks, num_warps=8, num_stages=3)
    return o

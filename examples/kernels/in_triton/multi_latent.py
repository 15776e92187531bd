"""`attention/multi_latent.py` in Triton, by hand."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(
    q_ptr,
    p_ptr,
    c_ptr,
    r_ptr,
    lengths_ptr,
    o_ptr,
    scale,
    heads,
    latent,
    rotated,
    q_batch_stride,
    q_head_stride,
    q_column_stride,
    p_batch_stride,
    p_head_stride,
    p_column_stride,
    c_batch_stride,
    c_row_stride,
    c_column_stride,
    r_batch_stride,
    r_row_stride,
    r_column_stride,
    o_batch_stride,
    o_head_stride,
    o_column_stride,
    H: tl.constexpr,
    N: tl.constexpr,
    C: tl.constexpr,
    R: tl.constexpr,
):
    batch = tl.program_id(0).to(tl.int64)
    head, c_lane, r_lane = tl.program_id(1) * H + tl.arange(0, H), tl.arange(0, C), tl.arange(0, R)
    is_head, is_c, is_r = head < heads, c_lane < latent, r_lane < rotated
    q_ptrs = q_ptr + batch * q_batch_stride + head[:, None] * q_head_stride + c_lane[None, :] * q_column_stride
    p_ptrs = p_ptr + batch * p_batch_stride + head[:, None] * p_head_stride + r_lane[None, :] * p_column_stride
    q = tl.load(q_ptrs, mask=is_head[:, None] & is_c[None, :], other=0.0)
    p = tl.load(p_ptrs, mask=is_head[:, None] & is_r[None, :], other=0.0)
    length = tl.load(lengths_ptr + batch)
    peak = tl.full((H,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((H,), dtype=tl.float32)
    sums = tl.zeros((H, C), dtype=tl.float32)

    for done in range(0, length, N):
        row = done + tl.arange(0, N)
        is_row = row < length
        c_ptrs = c_ptr + batch * c_batch_stride + row[:, None] * c_row_stride + c_lane[None, :] * c_column_stride
        r_ptrs = r_ptr + batch * r_batch_stride + row[:, None] * r_row_stride + r_lane[None, :] * r_column_stride
        c = tl.load(c_ptrs, mask=is_row[:, None] & is_c[None, :], other=0.0)
        r = tl.load(r_ptrs, mask=is_row[:, None] & is_r[None, :], other=0.0)
        scores = tl.dot(q, tl.trans(c), input_precision="ieee")
        scores = tl.dot(p, tl.trans(r), scores, input_precision="ieee") * scale
        scores = tl.where(is_row[None, :], scores, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, axis=1))
        weights, decay = tl.exp(scores - higher[:, None]), tl.exp(peak - higher)
        total = total * decay + tl.sum(weights, axis=1)
        sums = sums * decay[:, None] + tl.dot(weights.to(c.dtype), c, input_precision="ieee")
        peak = higher

    o_ptrs = o_ptr + batch * o_batch_stride + head[:, None] * o_head_stride + c_lane[None, :] * o_column_stride
    tl.store(o_ptrs, (sums / total[:, None]).to(q.dtype), mask=is_head[:, None] & is_c[None, :])


def multi_latent(q, p, c, r, lengths, scale):
    batch, heads, latent = q.shape
    rotated = p.shape[2]
    o = torch.empty_like(q)
    strides = (stride for tensor in (q, p, c, r, o) for stride in tensor.stride())
    lanes = {"C": max(triton.next_power_of_2(latent), 16), "R": max(triton.next_power_of_2(rotated), 16)}
    sizes = (scale, heads, latent, rotated, *strides)
    kernel[(batch, triton.cdiv(heads, 16))](q, p, c, r, lengths, o, *sizes, H=16, N=32, **lanes, num_warps=4)
    return o

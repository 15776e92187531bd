"""`attention/linear_attention.py` in Triton, by hand."""

import torch
import triton
import triton.language as tl


@triton.jit
def feature(x):
    x = x.to(tl.float32)
    return tl.where(x > 0, x + 1, tl.exp(x))


@triton.jit
def kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    length,
    heads,
    width,
    inner,
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
    CHUNK: tl.constexpr,
    D: tl.constexpr,
    E: tl.constexpr,
):
    batch, head = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    place, d, e = tl.arange(0, CHUNK), tl.arange(0, D), tl.arange(0, E)
    is_d, is_e = d < width, e < inner
    q_ptrs = q_ptr + batch * q_batch_stride + head * q_head_stride
    q_ptrs += place[:, None] * q_row_stride + d[None, :] * q_column_stride
    k_ptrs = k_ptr + batch * k_batch_stride + head * k_head_stride
    k_ptrs += place[:, None] * k_row_stride + d[None, :] * k_column_stride
    v_ptrs = v_ptr + batch * v_batch_stride + head * v_head_stride
    v_ptrs += place[:, None] * v_row_stride + e[None, :] * v_column_stride
    o_ptrs = o_ptr + batch * o_batch_stride + head * o_head_stride
    o_ptrs += place[:, None] * o_row_stride + e[None, :] * o_column_stride
    dtype = o_ptr.dtype.element_ty
    state = tl.zeros((D, E), dtype=tl.float32)
    z = tl.zeros((D,), dtype=tl.float32)

    for done in range(0, length, CHUNK):
        is_row = place < length - done
        is_feature = is_row[:, None] & is_d[None, :]
        # What lies past the end must be 0 after `feature`, which makes 1 of a 0.
        queries = tl.where(is_feature, feature(tl.load(q_ptrs, mask=is_feature, other=0.0)), 0.0).to(dtype)
        keys = tl.where(is_feature, feature(tl.load(k_ptrs, mask=is_feature, other=0.0)), 0.0).to(dtype)
        values = tl.load(v_ptrs, mask=is_row[:, None] & is_e[None, :], other=0.0)
        weights = tl.dot(queries, tl.trans(keys), input_precision="ieee")
        weights = tl.where(place[None, :] <= place[:, None], weights, 0.0)
        total = tl.sum(weights, axis=1) + tl.sum(queries * z[None, :], axis=1)
        result = tl.dot(weights.to(dtype), values, input_precision="ieee")
        result += tl.dot(queries, state.to(dtype), input_precision="ieee")
        result = result / tl.where(is_row, total, 1.0)[:, None]
        tl.store(o_ptrs, result.to(dtype), mask=is_row[:, None] & is_e[None, :])
        state += tl.dot(tl.trans(keys), values, input_precision="ieee")
        z += tl.sum(keys.to(tl.float32), axis=0)
        q_ptrs += CHUNK * q_row_stride
        k_ptrs += CHUNK * k_row_stride
        v_ptrs += CHUNK * v_row_stride
        o_ptrs += CHUNK * o_row_stride


def linear_attention(q, k, v):
    batch, heads, length, width = q.shape
    inner = v.shape[3]
    o = torch.empty_like(v)
    strides = (stride for tensor in (q, k, v, o) for stride in tensor.stride())
    lanes = {"D": max(triton.next_power_of_2(width), 16), "E": max(triton.next_power_of_2(inner), 16)}
    kernel[(batch * heads,)](q, k, v, o, length, heads, width, inner, *strides, CHUNK=64, **lanes, num_warps=4)
    return o

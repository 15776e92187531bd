"""`quantised/int4_product.py` in Triton, by hand."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(
    a_ptr,
    weight_ptr,
    scale_ptr,
    c_ptr,
    rows,
    columns,
    groups,
    a_row_stride,
    a_depth_stride,
    weight_row_stride,
    weight_byte_stride,
    scale_row_stride,
    scale_group_stride,
    c_row_stride,
    M: tl.constexpr,
    N: tl.constexpr,
    GROUP: tl.constexpr,
):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * N + tl.arange(0, N)
    is_row, is_column = row < rows, column < columns
    k, byte = tl.arange(0, GROUP), tl.arange(0, GROUP // 2)
    a_ptrs = a_ptr + row[:, None] * a_row_stride + k[None, :] * a_depth_stride
    weight_ptrs = weight_ptr + column[:, None] * weight_row_stride + byte[None, :] * weight_byte_stride
    scale_ptrs = scale_ptr + column * scale_row_stride
    total = tl.zeros((M, N), dtype=tl.float32)

    for _ in range(groups):
        a = tl.load(a_ptrs, mask=is_row[:, None], other=0.0)
        packed = tl.load(weight_ptrs, mask=is_column[:, None], other=0)
        scale = tl.load(scale_ptrs, mask=is_column, other=0.0).to(tl.float32)
        nibbles = tl.interleave(packed & 15, packed >> 4).to(tl.int8) - 8
        total += tl.dot(a, tl.trans(nibbles.to(a.dtype)), input_precision="ieee") * scale[None, :]
        a_ptrs += GROUP * a_depth_stride
        weight_ptrs += GROUP // 2 * weight_byte_stride
        scale_ptrs += scale_group_stride

    c_ptrs = c_ptr + row[:, None] * c_row_stride + column[None, :]
    tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty), mask=is_row[:, None] & is_column[None, :])


def int4_product(a, weight, scale):
    c = torch.empty(a.shape[0], weight.shape[0], device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(c.shape[0], 16), triton.cdiv(c.shape[1], 64))
    strides = (*a.stride(), *weight.stride(), *scale.stride(), c.stride(0))
    kernel[grid](a, weight, scale, c, *c.shape, scale.shape[1], *strides, M=16, N=64, GROUP=128, num_warps=4)
    return c

"""`quantised/fp8_block_product.py` in Triton, by hand."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(
    a_ptr,
    b_ptr,
    scale_a_ptr,
    scale_b_ptr,
    c_ptr,
    rows,
    columns,
    depth,
    a_row_stride,
    a_depth_stride,
    b_row_stride,
    b_depth_stride,
    scale_a_row_stride,
    scale_a_group_stride,
    scale_b_row_stride,
    scale_b_group_stride,
    c_row_stride,
    M: tl.constexpr,
    GROUP: tl.constexpr,
):
    row = tl.program_id(0) * M + tl.arange(0, M)
    column = tl.program_id(1) * GROUP + tl.arange(0, GROUP)
    k = tl.arange(0, GROUP)
    is_row, is_column = row < rows, column < columns
    a_ptrs = a_ptr + row[:, None] * a_row_stride + k[None, :] * a_depth_stride
    b_ptrs = b_ptr + column[None, :] * b_row_stride + k[:, None] * b_depth_stride
    scale_a_ptrs = scale_a_ptr + row * scale_a_row_stride
    scale_b_ptrs = scale_b_ptr + tl.program_id(1) * scale_b_row_stride
    total = tl.zeros((M, GROUP), dtype=tl.float32)

    for done in range(0, depth, GROUP):
        is_inside = k < depth - done
        a = tl.load(a_ptrs, mask=is_row[:, None] & is_inside[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=is_inside[:, None] & is_column[None, :], other=0.0)
        scale = tl.load(scale_a_ptrs, mask=is_row, other=0.0) * tl.load(scale_b_ptrs)
        total += tl.dot(a, b) * scale[:, None]
        a_ptrs += GROUP * a_depth_stride
        b_ptrs += GROUP * b_depth_stride
        scale_a_ptrs += scale_a_group_stride
        scale_b_ptrs += scale_b_group_stride

    c_ptrs = c_ptr + row[:, None] * c_row_stride + column[None, :]
    tl.store(c_ptrs, total.to(c_ptr.dtype.element_ty), mask=is_row[:, None] & is_column[None, :])


def fp8_block_product(a, b, scale_a, scale_b, dtype=torch.bfloat16):
    c = torch.empty(a.shape[0], b.shape[0], device=a.device, dtype=dtype)
    grid = (triton.cdiv(c.shape[0], 128), triton.cdiv(c.shape[1], 128))
    strides = (stride for tensor in (a, b, scale_a, scale_b) for stride in tensor.stride())
    sizes = (*c.shape, a.shape[1], *strides, c.stride(0))
    kernel[grid](a, b, scale_a, scale_b, c, *sizes, M=128, GROUP=128, num_warps=8, num_stages=3)
    return c

"""`grouped/grouped_product.py` in Triton, by hand."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(
    x_ptr,
    weight_ptr,
    offsets_ptr,
    y_ptr,
    depth,
    columns,
    x_row_stride,
    x_depth_stride,
    weight_group_stride,
    weight_depth_stride,
    weight_column_stride,
    y_row_stride,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
):
    group = tl.program_id(2)
    start = tl.load(offsets_ptr + group)
    stop = tl.load(offsets_ptr + group + 1)
    first = start + tl.program_id(1) * M

    if first < stop:
        row = first + tl.arange(0, M)
        column = tl.program_id(0) * N + tl.arange(0, N)
        k = tl.arange(0, K)
        is_row, is_column = row < stop, column < columns
        x_ptrs = x_ptr + row[:, None] * x_row_stride + k[None, :] * x_depth_stride
        weight_ptrs = weight_ptr + group.to(tl.int64) * weight_group_stride
        weight_ptrs += k[:, None] * weight_depth_stride + column[None, :] * weight_column_stride
        total = tl.zeros((M, N), dtype=tl.float32)

        for done in range(0, depth, K):
            is_inside = k < depth - done
            a = tl.load(x_ptrs, mask=is_row[:, None] & is_inside[None, :], other=0.0)
            b = tl.load(weight_ptrs, mask=is_inside[:, None] & is_column[None, :], other=0.0)
            total = tl.dot(a, b, total, input_precision="ieee")
            x_ptrs += K * x_depth_stride
            weight_ptrs += K * weight_depth_stride

        y_ptrs = y_ptr + row[:, None] * y_row_stride + column[None, :]
        tl.store(y_ptrs, total, mask=is_row[:, None] & is_column[None, :])


def grouped_product(x, weight, offsets):
    rows, depth = x.shape
    groups, _, columns = weight.shape
    y = torch.empty(rows, columns, device=x.device, dtype=x.dtype)
    M, N, K = (128, 128, 64) if x.dtype.itemsize < 4 else (64, 64, 32)
    grid = (triton.cdiv(columns, N), triton.cdiv(rows, M), groups)
    sizes = (depth, columns, *x.stride(), *weight.stride(), y.stride(0))
    kernel[grid](x, weight, offsets, y, *sizes, M=M, N=N, K=K, num_warps=8, num_stages=3)
    return y

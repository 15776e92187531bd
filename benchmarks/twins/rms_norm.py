import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (8, 4, 16, 32)], key=["num_cols", "ROWS"])
@triton.jit
def kernel(
    input_ptr,
    weight_ptr,
    output_ptr,
    input_row_stride,
    input_col_stride,
    weight_stride,
    output_row_stride,
    num_rows,
    num_cols,
    eps,
    HAS_WEIGHT: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None].to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)[None, :]
    mask = (rows < num_rows) & (cols < num_cols)

    input_ptrs = input_ptr + rows * input_row_stride + cols * input_col_stride
    input = tl.load(input_ptrs, mask=mask, other=0.0).to(tl.float32)
    output = input * tl.rsqrt(tl.sum(input * input, axis=1, keep_dims=True) / num_cols + eps)

    if HAS_WEIGHT:
        output *= tl.load(weight_ptr + cols * weight_stride, mask=cols < num_cols).to(tl.float32)

    tl.store(output_ptr + rows * output_row_stride + cols, output, mask=mask)

import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (8, 4, 16, 32)], key=["num_cols", "ROWS"])
@triton.jit
def kernel(
    input_ptr,
    output_ptr,
    input_row_stride,
    input_col_stride,
    output_row_stride,
    num_rows,
    num_cols,
    ROWS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None].to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)[None, :]
    mask = (rows < num_rows) & (cols < num_cols)

    input_ptrs = input_ptr + rows * input_row_stride + cols * input_col_stride
    input = tl.load(input_ptrs, mask=mask, other=float("-inf")).to(tl.float32)
    numerator = tl.exp(input - tl.max(input, axis=1, keep_dims=True))
    output = numerator / tl.sum(numerator, axis=1, keep_dims=True)

    tl.store(output_ptr + rows * output_row_stride + cols, output, mask=mask)

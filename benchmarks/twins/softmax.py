import triton
import triton.language as tl


@triton.jit
def kernel(
    input_ptr,
    output_ptr,
    input_row_stride,
    input_col_stride,
    output_row_stride,
    num_cols,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < num_cols

    input_ptrs = input_ptr + row * input_row_stride + cols * input_col_stride
    input = tl.load(input_ptrs, mask=mask, other=float("-inf")).to(tl.float32)
    numerator = tl.exp(input - tl.max(input, axis=0))
    output = numerator / tl.sum(numerator, axis=0)

    tl.store(output_ptr + row * output_row_stride + cols, output, mask=mask)

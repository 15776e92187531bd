import triton
import triton.language as tl


@triton.jit
def kernel(
    input_ptr,
    weight_ptr,
    output_ptr,
    input_row_stride,
    input_col_stride,
    weight_stride,
    output_row_stride,
    num_cols,
    eps,
    HAS_WEIGHT: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < num_cols

    input_ptrs = input_ptr + row * input_row_stride + cols * input_col_stride
    input = tl.load(input_ptrs, mask=mask, other=0.0).to(tl.float32)
    output = input * tl.rsqrt(tl.sum(input * input, axis=0) / num_cols + eps)

    if HAS_WEIGHT:
        output *= tl.load(weight_ptr + cols * weight_stride, mask=mask).to(tl.float32)

    tl.store(output_ptr + row * output_row_stride + cols, output, mask=mask)

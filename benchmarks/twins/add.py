import triton
import triton.language as tl


@triton.jit
def locate(indices, size_1, size_2, size_3, stride_0, stride_1, stride_2, stride_3):
    outer = indices // size_3
    offsets = indices % size_3 * stride_3 + outer % size_2 * stride_2
    outer = outer // size_2
    return offsets + outer % size_1 * stride_1 + (outer // size_1).to(tl.int64) * stride_0


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_SIZE": size}, num_warps=warps)
        for size, warps in ((1024, 4), (1024, 8), (2048, 4), (2048, 8), (4096, 8))
    ],
    key=["num_elements", "CONTIGUOUS"],
)
@triton.jit
def kernel(
    input_ptr,
    other_ptr,
    output_ptr,
    alpha,
    num_elements,
    size_1,
    size_2,
    size_3,
    input_stride_0,
    input_stride_1,
    input_stride_2,
    input_stride_3,
    other_stride_0,
    other_stride_1,
    other_stride_2,
    other_stride_3,
    CONTIGUOUS: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    indices = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = indices < num_elements

    if CONTIGUOUS:
        input_ptrs = input_ptr + indices
        other_ptrs = other_ptr + indices
    else:
        input_ptrs = input_ptr + locate(
            indices, size_1, size_2, size_3, input_stride_0, input_stride_1, input_stride_2, input_stride_3
        )
        other_ptrs = other_ptr + locate(
            indices, size_1, size_2, size_3, other_stride_0, other_stride_1, other_stride_2, other_stride_3
        )

    input = tl.load(input_ptrs, mask=mask).to(tl.float32)
    other = tl.load(other_ptrs, mask=mask).to(tl.float32)
    output = input + alpha * other

    tl.store(output_ptr + indices, output, mask=mask)

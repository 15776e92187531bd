import triton
import triton.language as tl


@triton.jit
def kernel(input_ptr, other_ptr, output_ptr, alpha, num_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < num_elements

    input = tl.load(input_ptr + offsets, mask=mask)
    other = tl.load(other_ptr + offsets, mask=mask)
    output = input + alpha * other

    tl.store(output_ptr + offsets, output, mask=mask)

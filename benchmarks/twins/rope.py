import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({}, num_warps=warps) for warps in (4, 2, 8)],
    key=["num_heads", "HEAD_DIM", "INTERLEAVED", "WHOLE"],
)
@triton.jit
def kernel(
    input_ptr,
    sin_ptr,
    cos_ptr,
    output_ptr,
    num_heads,
    input_stride_b,
    input_stride_s,
    input_stride_h,
    sin_stride_b,
    sin_stride_s,
    cos_stride_b,
    cos_stride_s,
    output_stride_b,
    output_stride_s,
    output_stride_h,
    INTERLEAVED: tl.constexpr,
    WHOLE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE_H: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    batch = tl.program_id(1).to(tl.int64)
    HALF_DIM: tl.constexpr = HEAD_DIM // 2

    heads = tl.program_id(2) * BLOCK_SIZE_H + tl.arange(0, BLOCK_SIZE_H)[:, None]
    dims = tl.arange(0, HEAD_DIM)[None, :]
    pairs = tl.arange(0, HALF_DIM)[None, :]
    mask = heads < num_heads

    sin_ptrs = sin_ptr + batch * sin_stride_b + token * sin_stride_s
    cos_ptrs = cos_ptr + batch * cos_stride_b + token * cos_stride_s

    # Whole tables have an angle for each element of a pair, the others one for both.
    if WHOLE and INTERLEAVED:
        sin = tl.load(sin_ptrs + dims).to(tl.float32)
        cos = tl.load(cos_ptrs + dims).to(tl.float32)
        first_sin, second_sin = tl.split(tl.reshape(sin, (1, HALF_DIM, 2)))
        first_cos, second_cos = tl.split(tl.reshape(cos, (1, HALF_DIM, 2)))
    else:
        apart: tl.constexpr = HALF_DIM if WHOLE else 0
        first_sin = tl.load(sin_ptrs + pairs).to(tl.float32)
        first_cos = tl.load(cos_ptrs + pairs).to(tl.float32)
        second_sin = tl.load(sin_ptrs + apart + pairs).to(tl.float32)
        second_cos = tl.load(cos_ptrs + apart + pairs).to(tl.float32)

    input_ptrs = input_ptr + batch * input_stride_b + token * input_stride_s + heads * input_stride_h
    output_ptrs = output_ptr + batch * output_stride_b + token * output_stride_s + heads * output_stride_h

    if INTERLEAVED:
        input = tl.load(input_ptrs + dims, mask=mask).to(tl.float32)
        first, second = tl.split(tl.reshape(input, (BLOCK_SIZE_H, HALF_DIM, 2)))
        output = tl.join(first * first_cos - second * first_sin, first * second_sin + second * second_cos)
        tl.store(output_ptrs + dims, tl.reshape(output, (BLOCK_SIZE_H, HEAD_DIM)), mask=mask)
    else:
        first = tl.load(input_ptrs + pairs, mask=mask).to(tl.float32)
        second = tl.load(input_ptrs + HALF_DIM + pairs, mask=mask).to(tl.float32)
        tl.store(output_ptrs + pairs, first * first_cos - second * first_sin, mask=mask)
        tl.store(output_ptrs + HALF_DIM + pairs, first * second_sin + second * second_cos, mask=mask)

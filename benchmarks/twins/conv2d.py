import triton
import triton.language as tl


# The input and the weight lie in memory with their channels innermost, the output with its pixels.
@triton.autotune(
    configs=[
        triton.Config({"BLOCK_SIZE_M": m, "BLOCK_SIZE_N": n, "BLOCK_SIZE_K": k}, num_warps=warps, num_stages=stages)
        for m, n, k, warps, stages in (
            (64, 64, 64, 4, 4),
            (64, 64, 128, 4, 4),
            (64, 32, 64, 4, 5),
            (64, 32, 128, 4, 4),
            (128, 32, 128, 4, 4),
            (128, 64, 64, 8, 4),
            (128, 64, 128, 8, 3),
        )
    ],
    key=["n", "h", "w", "k", "p", "q", "C", "R", "S"],
)
@triton.jit
def kernel(
    input_ptr,
    weight_ptr,
    bias_ptr,
    output_ptr,
    n,
    h,
    w,
    k,
    p,
    q,
    input_stride_n,
    input_stride_h,
    input_stride_w,
    weight_stride_k,
    weight_stride_r,
    weight_stride_s,
    output_stride_n,
    output_stride_k,
    stride_h,
    stride_w,
    padding_h,
    padding_w,
    dilation_h,
    dilation_w,
    C: tl.constexpr,
    R: tl.constexpr,
    S: tl.constexpr,
    PADDED: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr,
):
    group = tl.program_id(2)
    offs_m = tl.program_id(0) * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_n = offs_m // (p * q)
    offs_p = offs_m // q % p
    offs_q = offs_m % q
    offs_k = tl.program_id(1) * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    # Past the last filter of the group the last one is read, and nothing stored.
    filters = group * k + tl.minimum(offs_k, k - 1)
    offs_c = tl.arange(0, BLOCK_SIZE_K)

    origin_h = offs_p * stride_h - padding_h
    origin_w = offs_q * stride_w - padding_w
    input_ptr += group * C
    input_ptrs = input_ptr + offs_n * input_stride_n + origin_h * input_stride_h + origin_w * input_stride_w
    input_ptrs = input_ptrs[:, None] + offs_c[None, :]
    weight_ptrs = weight_ptr + offs_c[:, None] + filters[None, :] * weight_stride_k

    NUM_BLOCKS_C: tl.constexpr = (C + BLOCK_SIZE_K - 1) // BLOCK_SIZE_K
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)

    for step in range(R * S * NUM_BLOCKS_C):
        r = step // NUM_BLOCKS_C // S
        s = step // NUM_BLOCKS_C % S
        start_c = step % NUM_BLOCKS_C * BLOCK_SIZE_K

        inside = offs_n < n
        if PADDED:
            inside_h = (origin_h + r * dilation_h >= 0) & (origin_h + r * dilation_h < h)
            inside_w = (origin_w + s * dilation_w >= 0) & (origin_w + s * dilation_w < w)
            inside = inside & inside_h & inside_w
        input_offset = start_c + r * dilation_h * input_stride_h + s * dilation_w * input_stride_w
        weight_offset = start_c + r * weight_stride_r + s * weight_stride_s

        if C % BLOCK_SIZE_K == 0:
            input = tl.load(input_ptrs + input_offset, mask=inside[:, None], other=0.0)
            weight = tl.load(weight_ptrs + weight_offset)
        else:
            mask = inside[:, None] & (offs_c[None, :] < C - start_c)
            input = tl.load(input_ptrs + input_offset, mask=mask, other=0.0)
            weight = tl.load(weight_ptrs + weight_offset, mask=offs_c[:, None] < C - start_c, other=0.0)
        accumulator = tl.dot(input, weight, accumulator, input_precision=INPUT_PRECISION)

    if HAS_BIAS:
        accumulator += tl.load(bias_ptr + filters).to(tl.float32)[None, :]

    output_ptr += group * k * output_stride_k
    output_ptrs = output_ptr + offs_n * output_stride_n + offs_m % (p * q)
    output_ptrs = output_ptrs[:, None] + offs_k[None, :] * output_stride_k
    tl.store(output_ptrs, accumulator, mask=(offs_n[:, None] < n) & (offs_k[None, :] < k))

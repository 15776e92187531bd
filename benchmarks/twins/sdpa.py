import triton
import triton.language as tl


@triton.jit
def attend(
    accumulator,
    peak,
    total,
    query,
    key_ptrs,
    value_ptrs,
    mask_ptrs,
    scale,
    key_stride_n,
    value_stride_n,
    mask_stride_n,
    offs_m,
    offs_n,
    query_len,
    key_len,
    start,
    stop,
    EDGE: tl.constexpr,
    IS_CAUSAL: tl.constexpr,
    HAS_MASK: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
):
    for start_n in range(start, stop, BLOCK_SIZE_N):
        cols = start_n + offs_n
        if EDGE:
            key = tl.load(key_ptrs + start_n * key_stride_n, mask=cols[None, :] < key_len, other=0.0)
        else:
            key = tl.load(key_ptrs + start_n * key_stride_n)
        scores = tl.dot(query, key, input_precision=INPUT_PRECISION)

        if HAS_MASK:
            inside = (offs_m[:, None] < query_len) & (cols[None, :] < key_len)
            mask = tl.load(mask_ptrs + start_n * mask_stride_n, mask=inside, other=0.0).to(tl.float32)
            scores += mask * (1.4426950408889634 / scale)
        if EDGE:
            visible = cols[None, :] < key_len
            if IS_CAUSAL:
                visible = visible & (offs_m[:, None] >= cols[None, :])
            scores = tl.where(visible, scores, float("-inf"))

        new_peak = tl.maximum(peak, tl.max(scores, axis=1) * scale)
        if HAS_MASK:
            shift = tl.where(new_peak == float("-inf"), 0.0, new_peak)
        else:
            shift = new_peak
        weights = tl.exp2(scores * scale - shift[:, None])
        decay = tl.exp2(peak - shift)
        total = total * decay + tl.sum(weights, axis=1)
        accumulator = accumulator * decay[:, None]

        if EDGE:
            value = tl.load(value_ptrs + start_n * value_stride_n, mask=cols[:, None] < key_len, other=0.0)
        else:
            value = tl.load(value_ptrs + start_n * value_stride_n)
        accumulator = tl.dot(weights.to(value.dtype), value, accumulator, input_precision=INPUT_PRECISION)
        peak = new_peak

    return accumulator, peak, total


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 128}, num_warps=8, num_stages=2),
        triton.Config({"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 64}, num_warps=8, num_stages=3),
        triton.Config({"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 64}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 32}, num_warps=4, num_stages=3),
    ],
    key=["query_len", "key_len", "HEAD_DIM", "IS_CAUSAL", "HAS_MASK"],
)
@triton.jit
def kernel(
    query_ptr,
    key_ptr,
    value_ptr,
    mask_ptr,
    output_ptr,
    scale,
    num_heads,
    group_size,
    query_len,
    key_len,
    query_stride_b,
    query_stride_h,
    query_stride_m,
    query_stride_d,
    key_stride_b,
    key_stride_h,
    key_stride_n,
    key_stride_d,
    value_stride_b,
    value_stride_h,
    value_stride_n,
    value_stride_d,
    mask_stride_b,
    mask_stride_h,
    mask_stride_m,
    mask_stride_n,
    output_stride_b,
    output_stride_h,
    output_stride_m,
    output_stride_d,
    IS_CAUSAL: tl.constexpr,
    HAS_MASK: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
):
    # The longest causal rows first, so that the last programs are short ones.
    block_m = tl.num_programs(0) - 1 - tl.program_id(0) if IS_CAUSAL else tl.program_id(0)
    batch = (tl.program_id(1) // num_heads).to(tl.int64)
    head = (tl.program_id(1) % num_heads).to(tl.int64)
    group = head // group_size

    offs_m = block_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_n = tl.arange(0, BLOCK_SIZE_N)
    offs_d = tl.arange(0, HEAD_DIM)
    query_ptr += batch * query_stride_b + head * query_stride_h
    key_ptr += batch * key_stride_b + group * key_stride_h
    value_ptr += batch * value_stride_b + group * value_stride_h
    mask_ptr += batch * mask_stride_b + head * mask_stride_h
    output_ptr += batch * output_stride_b + head * output_stride_h
    query_ptrs = query_ptr + offs_m[:, None] * query_stride_m + offs_d[None, :] * query_stride_d
    key_ptrs = key_ptr + offs_n[None, :] * key_stride_n + offs_d[:, None] * key_stride_d
    value_ptrs = value_ptr + offs_n[:, None] * value_stride_n + offs_d[None, :] * value_stride_d
    mask_ptrs = mask_ptr + offs_m[:, None] * mask_stride_m + offs_n[None, :] * mask_stride_n
    output_ptrs = output_ptr + offs_m[:, None] * output_stride_m + offs_d[None, :] * output_stride_d

    query = tl.load(query_ptrs, mask=offs_m[:, None] < query_len, other=0.0)
    accumulator = tl.zeros((BLOCK_SIZE_M, HEAD_DIM), dtype=tl.float32)
    peak = tl.full((BLOCK_SIZE_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_SIZE_M,), dtype=tl.float32)

    # Whole tiles that every row sees, then those on the diagonal or at the end.
    stop = min(key_len, (block_m + 1) * BLOCK_SIZE_M) if IS_CAUSAL else key_len
    edge = min(stop, block_m * BLOCK_SIZE_M) if IS_CAUSAL else stop
    edge = edge // BLOCK_SIZE_N * BLOCK_SIZE_N
    accumulator, peak, total = attend(
        accumulator,
        peak,
        total,
        query,
        key_ptrs,
        value_ptrs,
        mask_ptrs,
        scale,
        key_stride_n,
        value_stride_n,
        mask_stride_n,
        offs_m,
        offs_n,
        query_len,
        key_len,
        0,
        edge,
        False,
        IS_CAUSAL,
        HAS_MASK,
        INPUT_PRECISION,
        BLOCK_SIZE_N,
    )
    accumulator, peak, total = attend(
        accumulator,
        peak,
        total,
        query,
        key_ptrs,
        value_ptrs,
        mask_ptrs,
        scale,
        key_stride_n,
        value_stride_n,
        mask_stride_n,
        offs_m,
        offs_n,
        query_len,
        key_len,
        edge,
        stop,
        True,
        IS_CAUSAL,
        HAS_MASK,
        INPUT_PRECISION,
        BLOCK_SIZE_N,
    )

    output = accumulator / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(output_ptrs, output, mask=offs_m[:, None] < query_len)

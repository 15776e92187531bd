import triton
import triton.language as tl

# A multiple of all blocks that are tried.
LARGEST_BLOCK = 128


@triton.jit
def load(tensor, index, heads, length, start, FLAT: tl.constexpr, BLOCK_SIZE: tl.constexpr, HEAD_DIM: tl.constexpr):
    # FLAT: the heads lie below each other in one matrix, and their lengths are whole blocks.
    if FLAT:
        tile = tensor.load([index * length + start, 0])
    else:
        tile = tensor.load([index // heads, index % heads, start, 0]).reshape(BLOCK_SIZE, HEAD_DIM)
    return tile


@triton.jit
def attend(
    accumulator,
    peak,
    total,
    query_tile,
    key,
    value,
    scale,
    group,
    num_groups,
    offs_m,
    key_len,
    start,
    stop,
    EDGE: tl.constexpr,
    FLAT: tl.constexpr,
    IS_CAUSAL: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
):
    for start_n in range(start, stop, BLOCK_SIZE_N):
        key_tile = load(key, group, num_groups, key_len, start_n, FLAT, BLOCK_SIZE_N, HEAD_DIM)
        scores = tl.dot(query_tile, key_tile.T, input_precision=INPUT_PRECISION)

        if EDGE:
            cols = start_n + tl.arange(0, BLOCK_SIZE_N)
            visible = cols[None, :] < key_len
            if IS_CAUSAL:
                visible = visible & (offs_m[:, None] >= cols[None, :])
            scores = tl.where(visible, scores, float("-inf"))

        new_peak = tl.maximum(peak, tl.max(scores, axis=1) * scale)
        weights = tl.exp2(scores * scale - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        total = total * decay + tl.sum(weights, axis=1)
        accumulator = accumulator * decay[:, None]

        value_tile = load(value, group, num_groups, key_len, start_n, FLAT, BLOCK_SIZE_N, HEAD_DIM)
        accumulator = tl.dot(weights.to(value.dtype), value_tile, accumulator, input_precision=INPUT_PRECISION)
        peak = new_peak

    return accumulator, peak, total


def set_blocks(args):
    """Give the descriptors of a launch the blocks of the configuration that is tried."""
    outer = [] if args["FLAT"] else [1, 1]
    for name in ("query", "output"):
        args[name].block_shape = [*outer, args["BLOCK_SIZE_M"], args["HEAD_DIM"]]
    for name in ("key", "value"):
        args[name].block_shape = [*outer, args["BLOCK_SIZE_N"], args["HEAD_DIM"]]


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_SIZE_M": m, "BLOCK_SIZE_N": n}, num_warps=warps, num_stages=stages, pre_hook=set_blocks)
        for m, n, warps, stages in (
            (128, 128, 8, 2),
            (128, 128, 8, 3),
            (128, 128, 4, 2),
            (128, 64, 8, 3),
            (128, 64, 4, 3),
            (64, 128, 4, 2),
            (64, 64, 4, 3),
        )
    ],
    key=["query_len", "key_len", "HEAD_DIM", "FLAT", "IS_CAUSAL"],
)
@triton.jit
def kernel(
    query,
    key,
    value,
    output,
    lse_ptr,
    scale,
    num_heads,
    num_groups,
    query_len,
    key_len,
    FLAT: tl.constexpr,
    IS_CAUSAL: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
):
    # The longest causal rows first, so that the last programs are short ones.
    block_m = tl.num_programs(0) - 1 - tl.program_id(0) if IS_CAUSAL else tl.program_id(0)
    head = tl.program_id(1)
    group = head // (num_heads // num_groups)
    start_m = block_m * BLOCK_SIZE_M
    offs_m = start_m + tl.arange(0, BLOCK_SIZE_M)

    query_tile = load(query, head, num_heads, query_len, start_m, FLAT, BLOCK_SIZE_M, HEAD_DIM)
    accumulator = tl.zeros((BLOCK_SIZE_M, HEAD_DIM), dtype=tl.float32)
    peak = tl.full((BLOCK_SIZE_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_SIZE_M,), dtype=tl.float32)

    # Whole tiles that every row sees, then those on the diagonal or at the end.
    stop = min(key_len, start_m + BLOCK_SIZE_M) if IS_CAUSAL else key_len
    edge = min(stop, start_m) if IS_CAUSAL else stop
    edge = edge // BLOCK_SIZE_N * BLOCK_SIZE_N
    for is_edge in tl.static_range(1 if FLAT and not IS_CAUSAL else 2):
        accumulator, peak, total = attend(
            accumulator,
            peak,
            total,
            query_tile,
            key,
            value,
            scale,
            group,
            num_groups,
            offs_m,
            key_len,
            edge if is_edge else 0,
            stop if is_edge else edge,
            is_edge,
            FLAT,
            IS_CAUSAL,
            INPUT_PRECISION,
            HEAD_DIM,
            BLOCK_SIZE_N,
        )

    if lse_ptr is not None:
        tl.store(lse_ptr + head * query_len + offs_m, peak + tl.log2(total), mask=offs_m < query_len)
    result = (accumulator / total[:, None]).to(output.dtype)
    if FLAT:
        output.store([head * query_len + start_m, 0], result)
    else:
        output.store([head // num_heads, head % num_heads, start_m, 0], result.reshape(1, 1, BLOCK_SIZE_M, HEAD_DIM))

import triton
import triton.language as tl


@triton.jit
def attend(
    accumulator,
    peak,
    total,
    query_tile,
    key,
    value,
    scale,
    batch,
    group,
    offs_m,
    key_len,
    start,
    stop,
    EDGE: tl.constexpr,
    IS_CAUSAL: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
):
    for start_n in range(start, stop, BLOCK_SIZE_N):
        key_tile = key.load([batch, group, start_n, 0]).reshape(BLOCK_SIZE_N, HEAD_DIM)
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

        value_tile = value.load([batch, group, start_n, 0]).reshape(BLOCK_SIZE_N, HEAD_DIM)
        accumulator = tl.dot(weights.to(value.dtype), value_tile, accumulator, input_precision=INPUT_PRECISION)
        peak = new_peak

    return accumulator, peak, total


def set_blocks(args):
    """Give the descriptors of a launch the blocks of the configuration that is tried."""
    head_dim = args["HEAD_DIM"]
    for name in ("query", "output"):
        args[name].block_shape = [1, 1, args["BLOCK_SIZE_M"], head_dim]
    for name in ("key", "value"):
        args[name].block_shape = [1, 1, args["BLOCK_SIZE_N"], head_dim]


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
    key=["query_len", "key_len", "HEAD_DIM", "IS_CAUSAL"],
)
@triton.jit
def kernel(
    query,
    key,
    value,
    output,
    scale,
    num_heads,
    group_size,
    query_len,
    key_len,
    IS_CAUSAL: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
):
    # The longest causal rows first, so that the last programs are short ones.
    block_m = tl.num_programs(0) - 1 - tl.program_id(0) if IS_CAUSAL else tl.program_id(0)
    batch = tl.program_id(1) // num_heads
    head = tl.program_id(1) % num_heads
    group = head // group_size
    start_m = block_m * BLOCK_SIZE_M
    offs_m = start_m + tl.arange(0, BLOCK_SIZE_M)

    query_tile = query.load([batch, head, start_m, 0]).reshape(BLOCK_SIZE_M, HEAD_DIM)
    accumulator = tl.zeros((BLOCK_SIZE_M, HEAD_DIM), dtype=tl.float32)
    peak = tl.full((BLOCK_SIZE_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_SIZE_M,), dtype=tl.float32)

    # Whole tiles that every row sees, then those on the diagonal or at the end.
    stop = min(key_len, start_m + BLOCK_SIZE_M) if IS_CAUSAL else key_len
    edge = min(stop, start_m) if IS_CAUSAL else stop
    edge = edge // BLOCK_SIZE_N * BLOCK_SIZE_N
    for is_edge in tl.static_range(2):
        accumulator, peak, total = attend(
            accumulator,
            peak,
            total,
            query_tile,
            key,
            value,
            scale,
            batch,
            group,
            offs_m,
            key_len,
            edge if is_edge else 0,
            stop if is_edge else edge,
            is_edge,
            IS_CAUSAL,
            INPUT_PRECISION,
            HEAD_DIM,
            BLOCK_SIZE_N,
        )

    result = (accumulator / total[:, None]).to(output.dtype)
    output.store([batch, head, start_m, 0], result.reshape(1, 1, BLOCK_SIZE_M, HEAD_DIM))

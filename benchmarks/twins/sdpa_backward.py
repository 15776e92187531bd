import triton
import triton.language as tl

# A multiple of all blocks that are tried.
LARGEST_BLOCK = 128


@triton.jit
def delta_kernel(output_ptr, grad_ptr, delta_ptr, HEAD_DIM: tl.constexpr, BLOCK_SIZE_M: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    places = rows[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    output = tl.load(output_ptr + places).to(tl.float32)
    grad = tl.load(grad_ptr + places).to(tl.float32)
    tl.store(delta_ptr + rows, tl.sum(output * grad, axis=1))


@triton.jit
def add_keys_and_values(
    key_grad,
    value_grad,
    key,
    value,
    query_ptr,
    grad_ptr,
    lse_ptr,
    delta_ptr,
    cols,
    start,
    stop,
    EDGE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr,
):
    # Tiles are (keys, queries), so that weights and slopes are left operands as they are.
    offs_d = tl.arange(0, HEAD_DIM)
    for start_m in range(start, stop, BLOCK_SIZE_M):
        rows = start_m + tl.arange(0, BLOCK_SIZE_M)
        query_t = tl.load(query_ptr + rows[None, :] * HEAD_DIM + offs_d[:, None])
        lse = tl.load(lse_ptr + rows)
        weights = tl.exp2(tl.dot(key, query_t) - lse[None, :])
        if EDGE:
            weights = tl.where(rows[None, :] >= cols[:, None], weights, 0.0)

        grad = tl.load(grad_ptr + rows[:, None] * HEAD_DIM + offs_d[None, :])
        value_grad = tl.dot(weights.to(grad.dtype), grad, value_grad)
        delta = tl.load(delta_ptr + rows)
        slopes = weights * (tl.dot(value, tl.trans(grad)) - delta[None, :])
        key_grad = tl.dot(slopes.to(query_t.dtype), tl.trans(query_t), key_grad)

    return key_grad, value_grad


@triton.jit
def add_queries(
    query_grad,
    query,
    grad,
    lse,
    delta,
    key_ptr,
    value_ptr,
    rows,
    start,
    stop,
    EDGE: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
):
    offs_d = tl.arange(0, HEAD_DIM)
    for start_n in range(start, stop, BLOCK_SIZE_N):
        cols = start_n + tl.arange(0, BLOCK_SIZE_N)
        key_t = tl.load(key_ptr + cols[None, :] * HEAD_DIM + offs_d[:, None])
        value_t = tl.load(value_ptr + cols[None, :] * HEAD_DIM + offs_d[:, None])
        weights = tl.exp2(tl.dot(query, key_t) - lse[:, None])
        if EDGE:
            weights = tl.where(rows[:, None] >= cols[None, :], weights, 0.0)

        slopes = weights * (tl.dot(grad, value_t) - delta[:, None])
        query_grad = tl.dot(slopes.to(key_t.dtype), tl.trans(key_t), query_grad)

    return query_grad


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_SIZE_OWN": own, "BLOCK_SIZE_STEP": step}, num_warps=warps, num_stages=stages)
        for own, step, warps, stages in (
            (128, 32, 4, 5),
            (128, 32, 4, 3),
            (128, 64, 8, 3),
            (128, 64, 8, 2),
            (64, 64, 4, 3),
            (64, 32, 4, 4),
        )
    ],
    key=["length", "HEAD_DIM", "IS_CAUSAL"],
)
@triton.jit
def kernel(
    query_ptr,
    key_ptr,
    value_ptr,
    grad_ptr,
    lse_ptr,
    delta_ptr,
    query_grad_ptr,
    key_grad_ptr,
    value_grad_ptr,
    scale,
    length,
    IS_CAUSAL: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE_OWN: tl.constexpr,
    BLOCK_SIZE_STEP: tl.constexpr,
):
    # A program owns a block of keys and values, and after that one of queries. Keys were multiplied by scale * log2(e).
    head = tl.program_id(1).to(tl.int64)
    start_own = tl.program_id(0) * BLOCK_SIZE_OWN
    query_ptr += head * length * HEAD_DIM
    key_ptr += head * length * HEAD_DIM
    value_ptr += head * length * HEAD_DIM
    grad_ptr += head * length * HEAD_DIM
    lse_ptr += head * length
    delta_ptr += head * length

    own = start_own + tl.arange(0, BLOCK_SIZE_OWN)
    places = own[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    key = tl.load(key_ptr + places)
    value = tl.load(value_ptr + places)
    key_grad = tl.zeros((BLOCK_SIZE_OWN, HEAD_DIM), dtype=tl.float32)
    value_grad = tl.zeros((BLOCK_SIZE_OWN, HEAD_DIM), dtype=tl.float32)
    start = 0
    if IS_CAUSAL:
        start = start_own + BLOCK_SIZE_OWN
        key_grad, value_grad = add_keys_and_values(
            key_grad,
            value_grad,
            key,
            value,
            query_ptr,
            grad_ptr,
            lse_ptr,
            delta_ptr,
            own,
            start_own,
            start,
            True,
            HEAD_DIM,
            BLOCK_SIZE_STEP // 2,
        )
    key_grad, value_grad = add_keys_and_values(
        key_grad,
        value_grad,
        key,
        value,
        query_ptr,
        grad_ptr,
        lse_ptr,
        delta_ptr,
        own,
        start,
        length,
        False,
        HEAD_DIM,
        BLOCK_SIZE_STEP,
    )
    tl.store(value_grad_ptr + head * length * HEAD_DIM + places, value_grad)
    tl.store(key_grad_ptr + head * length * HEAD_DIM + places, key_grad * scale)

    query = tl.load(query_ptr + places)
    grad = tl.load(grad_ptr + places)
    lse = tl.load(lse_ptr + own)
    delta = tl.load(delta_ptr + own)
    query_grad = tl.zeros((BLOCK_SIZE_OWN, HEAD_DIM), dtype=tl.float32)
    stop = length
    if IS_CAUSAL:
        stop = start_own
        query_grad = add_queries(
            query_grad,
            query,
            grad,
            lse,
            delta,
            key_ptr,
            value_ptr,
            own,
            start_own,
            start_own + BLOCK_SIZE_OWN,
            True,
            HEAD_DIM,
            BLOCK_SIZE_STEP // 2,
        )
    query_grad = add_queries(
        query_grad,
        query,
        grad,
        lse,
        delta,
        key_ptr,
        value_ptr,
        own,
        0,
        stop,
        False,
        HEAD_DIM,
        BLOCK_SIZE_STEP,
    )
    # Keys were multiplied by scale * log2(e).
    tl.store(query_grad_ptr + head * length * HEAD_DIM + places, query_grad * 0.6931471805599453)

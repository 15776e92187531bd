import triton
import triton.language as tl

from benchmarks.twins.tma import products
from benchmarks.twins.tma.products import CHOICES, PERSISTENT_CHOICES, configurations


def set_blocks(args):
    """Give the descriptors of a launch the blocks of the configuration that is tried."""
    products.set_blocks(args)
    m, n = args["BLOCK_SIZE_M"], args["BLOCK_SIZE_N"]
    args["input"].block_shape = [1 if args["INPUT_IS_ROW"] else m, n // 2]


@triton.autotune(
    configs=configurations((*PERSISTENT_CHOICES[1:], *CHOICES), set_blocks),
    key=["m", "n", "k", "A_TRANSPOSED", "B_TRANSPOSED"],
)
@triton.jit
def kernel(
    input,
    a,
    b,
    c,
    beta,
    alpha,
    m,
    n,
    k,
    A_TRANSPOSED: tl.constexpr,
    B_TRANSPOSED: tl.constexpr,
    INPUT_IS_ROW: tl.constexpr,
    INPUT_PRECISION: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr,
    PERSISTENT: tl.constexpr,
):
    num_pid_m = tl.cdiv(m, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(n, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n

    for pid in tl.range(tl.program_id(0), num_pid_m * num_pid_n, tl.num_programs(0), flatten=PERSISTENT):
        first_pid_m = pid // num_pid_in_group * GROUP_SIZE_M
        group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
        start_m = (first_pid_m + pid % num_pid_in_group % group_size_m) * BLOCK_SIZE_M
        start_n = pid % num_pid_in_group // group_size_m * BLOCK_SIZE_N

        accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)

        for start_k in range(0, k, BLOCK_SIZE_K):
            if A_TRANSPOSED:
                a_tile = a.load([start_k, start_m]).T
            else:
                a_tile = a.load([start_m, start_k])
            if B_TRANSPOSED:
                b_tile = b.load([start_n, start_k]).T
            else:
                b_tile = b.load([start_k, start_n])
            accumulator = tl.dot(a_tile, b_tile, accumulator, input_precision=INPUT_PRECISION)

        # In halves, so that what is stored leaves room for another stage of what is loaded.
        halves = accumulator.reshape(BLOCK_SIZE_M, 2, BLOCK_SIZE_N // 2).permute(0, 2, 1)
        for half in tl.static_range(2):
            start = start_n + half * BLOCK_SIZE_N // 2
            output = tl.split(halves)[half]
            input_tile = input.load([0 if INPUT_IS_ROW else start_m, start]).to(tl.float32)
            c.store([start_m, start], (beta * input_tile + alpha * output).to(c.dtype))

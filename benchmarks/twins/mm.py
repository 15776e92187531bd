import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config(
            {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8},
            num_warps=8,
            num_stages=3,
        ),
        triton.Config(
            {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8},
            num_warps=8,
            num_stages=3,
        ),
        triton.Config(
            {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 8},
            num_warps=4,
            num_stages=4,
        ),
        triton.Config(
            {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 8},
            num_warps=4,
            num_stages=4,
        ),
    ],
    key=["m", "n", "k"],
)
@triton.heuristics({"EVEN_K": lambda args: args["k"] % args["BLOCK_SIZE_K"] == 0})
@triton.jit
def kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    m,
    n,
    k,
    a_stride_m,
    a_stride_k,
    b_stride_k,
    b_stride_n,
    c_stride_m,
    c_stride_n,
    INPUT_PRECISION: tl.constexpr,
    EVEN_K: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr,
):
    pid = tl.program_id(0)
    num_pid_m = tl.cdiv(m, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(n, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    first_pid_m = pid // num_pid_in_group * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + pid % num_pid_in_group % group_size_m
    pid_n = pid % num_pid_in_group // group_size_m

    # Whole blocks are skipped in 64 bits, once a program; what remains of each offset fits 32.
    start_m = pid_m * BLOCK_SIZE_M
    start_n = pid_n * BLOCK_SIZE_N
    offs_m = tl.arange(0, BLOCK_SIZE_M)
    offs_n = tl.arange(0, BLOCK_SIZE_N)
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptr += start_m.to(tl.int64) * a_stride_m
    b_ptr += start_n.to(tl.int64) * b_stride_n
    c_ptr += start_m.to(tl.int64) * c_stride_m + start_n.to(tl.int64) * c_stride_n
    a_ptrs = a_ptr + (offs_m % (m - start_m))[:, None] * a_stride_m + offs_k[None, :] * a_stride_k
    b_ptrs = b_ptr + offs_k[:, None] * b_stride_k + (offs_n % (n - start_n))[None, :] * b_stride_n

    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)

    for start_k in range(0, k, BLOCK_SIZE_K):
        if EVEN_K:
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=offs_k[None, :] < k - start_k, other=0.0)
            b = tl.load(b_ptrs, mask=offs_k[:, None] < k - start_k, other=0.0)
        accumulator = tl.dot(a, b, accumulator, input_precision=INPUT_PRECISION)
        a_ptrs += BLOCK_SIZE_K * a_stride_k
        b_ptrs += BLOCK_SIZE_K * b_stride_k

    c_ptrs = c_ptr + offs_m[:, None] * c_stride_m + offs_n[None, :] * c_stride_n
    mask = (offs_m[:, None] < m - start_m) & (offs_n[None, :] < n - start_n)
    tl.store(c_ptrs, accumulator, mask=mask)

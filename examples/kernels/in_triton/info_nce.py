"""`losses/info_nce.py` in Triton, by hand."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(
    query_ptr,
    keys_ptr,
    loss_ptr,
    queries,
    keys,
    depth,
    query_row_stride,
    query_column_stride,
    keys_row_stride,
    keys_column_stride,
    temperature,
    M: tl.constexpr,
    N: tl.constexpr,
    DEPTH: tl.constexpr,
):
    m = tl.program_id(0) * M + tl.arange(0, M)
    d = tl.arange(0, DEPTH)
    query_ptrs = query_ptr + m[:, None].to(tl.int64) * query_row_stride + d[None, :] * query_column_stride
    query = tl.load(query_ptrs, mask=(m < queries)[:, None] & (d < depth)[None, :], other=0.0)
    peak = tl.full((M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((M,), dtype=tl.float32)
    chosen = tl.zeros((M,), dtype=tl.float32)

    for start in range(0, keys, N):
        n = start + tl.arange(0, N)
        keys_ptrs = keys_ptr + d[:, None] * keys_column_stride + n[None, :].to(tl.int64) * keys_row_stride
        block = tl.load(keys_ptrs, mask=(d < depth)[:, None] & (n < keys)[None, :], other=0.0)
        scores = tl.dot(query, block, input_precision="ieee") / temperature
        scores = tl.where((n < keys)[None, :], scores, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, axis=1))
        total = total * tl.exp(peak - higher) + tl.sum(tl.exp(scores - higher[:, None]), axis=1)
        chosen += tl.sum(tl.where(m[:, None] == n[None, :], scores, 0.0), axis=1)
        peak = higher

    tl.store(loss_ptr + m, peak + tl.log(total) - chosen, mask=m < queries)


def info_nce(query, keys, temperature=0.07):
    queries, depth = query.shape
    loss = torch.empty(queries, device=query.device)
    sizes = (queries, keys.shape[0], depth, *query.stride(), *keys.stride())
    grid = (triton.cdiv(queries, 64),)
    padded = max(16, triton.next_power_of_2(depth))
    if queries:
        kernel[grid](query, keys, loss, *sizes, temperature, M=64, N=128, DEPTH=padded)
    return loss

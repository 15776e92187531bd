"""`attention/paged_attention.py` in Triton, by hand."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(
    query_ptr,
    keys_ptr,
    values_ptr,
    table_ptr,
    length_ptr,
    output_ptr,
    scale,
    tokens,
    width,
    query_batch_stride,
    query_head_stride,
    query_column_stride,
    keys_page_stride,
    keys_token_stride,
    keys_head_stride,
    keys_column_stride,
    values_page_stride,
    values_token_stride,
    values_head_stride,
    values_column_stride,
    table_batch_stride,
    output_batch_stride,
    output_head_stride,
    output_column_stride,
    TOKENS: tl.constexpr,
    D: tl.constexpr,
):
    batch, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    t, d = tl.arange(0, TOKENS), tl.arange(0, D)
    is_inside = d < width
    query_ptrs = query_ptr + batch * query_batch_stride + head * query_head_stride + d * query_column_stride
    query = tl.load(query_ptrs, mask=is_inside, other=0.0).to(tl.float32)
    length = tl.load(length_ptr + batch)
    peak, total = float("-inf"), 0.0
    sums = tl.zeros((D,), dtype=tl.float32)
    key_places = head * keys_head_stride + t[:, None] * keys_token_stride + d[None, :] * keys_column_stride
    value_places = head * values_head_stride + t[:, None] * values_token_stride + d[None, :] * values_column_stride

    for n in range(tl.cdiv(length, tokens)):
        page = tl.load(table_ptr + batch * table_batch_stride + n).to(tl.int64)
        is_token = (t < tokens) & (n * tokens + t < length)
        is_read = is_token[:, None] & is_inside[None, :]
        keys = tl.load(keys_ptr + page * keys_page_stride + key_places, mask=is_read, other=0.0)
        scores = tl.sum(keys * query[None, :], axis=1) * scale
        scores = tl.where(is_token, scores, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores))
        weights, decay = tl.exp(scores - higher), tl.exp(peak - higher)
        values = tl.load(values_ptr + page * values_page_stride + value_places, mask=is_read, other=0.0)
        total = total * decay + tl.sum(weights)
        sums = sums * decay + tl.sum(weights[:, None] * values, axis=0)
        peak = higher

    output_ptrs = output_ptr + batch * output_batch_stride + head * output_head_stride + d * output_column_stride
    tl.store(output_ptrs, sums / total, mask=is_inside)


def paged_attention(query, keys, values, table, length):
    batch, heads, width = query.shape
    tokens = keys.shape[1]
    output = torch.empty_like(query)
    strides = (*query.stride(), *keys.stride(), *values.stride(), table.stride(0), *output.stride())
    lanes = {"TOKENS": triton.next_power_of_2(tokens), "D": triton.next_power_of_2(width)}
    tensors = (query, keys, values, table, length, output)
    kernel[(batch, heads)](*tensors, width**-0.5, tokens, width, *strides, **lanes)
    return output

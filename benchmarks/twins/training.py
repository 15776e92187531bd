"""Twins with gradients, behind the arguments of PyTorch's operation: attention in the design of Triton's tutorial.

The forward keeps the log-sum-exp of each row. The backward takes weights from it anew: one launch for what rows share,
and one in which each program owns a block of keys and values, and then one of queries.
"""

import torch

from benchmarks.twins import sdpa_backward
from benchmarks.twins.launch import LOG2_E, attend


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, is_causal, scale):
        output, lse = torch.empty_like(query), query.new_empty(query.shape[:3], dtype=torch.float32)
        attend(query, key, value, output, lse, is_causal, scale)
        ctx.save_for_backward(query, key, value, output, lse)
        ctx.is_causal, ctx.scale = is_causal, scale
        return output

    @staticmethod
    def backward(ctx, grad):
        query, key, value, output, lse = ctx.saved_tensors
        batch, heads, length, head_dim = query.shape
        delta, grad = torch.empty_like(lse), grad.contiguous()
        grads = [torch.empty_like(each) for each in (query, key, value)]
        block = sdpa_backward.LARGEST_BLOCK
        sdpa_backward.delta_kernel[(lse.numel() // block,)](output, grad, delta, HEAD_DIM=head_dim, BLOCK_SIZE_M=block)
        sdpa_backward.kernel[lambda meta: (length // meta["BLOCK_SIZE_OWN"], batch * heads)](
            query,
            key * (ctx.scale * LOG2_E),
            value,
            grad,
            lse,
            delta,
            *grads,
            ctx.scale,
            length,
            IS_CAUSAL=ctx.is_causal,
            HEAD_DIM=head_dim,
        )
        return *grads, None, None


def sdpa(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    shape = query.shape
    if attn_mask is not None or dropout_p or not shape == key.shape == value.shape:
        raise ValueError("sdpa: the twin with gradients takes queries, keys and values of one shape, and no mask")
    if shape[2] % sdpa_backward.LARGEST_BLOCK or not all(each.is_contiguous() for each in (query, key, value)):
        raise ValueError(f"sdpa: the twin with gradients takes whole blocks of {sdpa_backward.LARGEST_BLOCK} rows")
    return Attention.apply(query, key, value, is_causal, shape[3] ** -0.5 if scale is None else scale)

"""Each twin behind the arguments of PyTorch's operation: what `ninetoothed_ops/ops` is to our kernels.

The ten agree with PyTorch for the floating types up to float32. They are as strict as hand-written launches usually
are: head dimensions are powers of two, and tensors are made contiguous where a kernel expects it.
"""

import math

import torch
import triton

from benchmarks.twins import (
    add as add_twin,
    addmm as addmm_twin,
    bmm as bmm_twin,
    conv2d as conv2d_twin,
    mm as mm_twin,
    rms_norm as rms_norm_twin,
    rope as rope_twin,
    sdpa as sdpa_twin,
    silu as silu_twin,
    softmax as softmax_twin,
)
from benchmarks.twins.descriptors import describe, programs, readable, tiles
from benchmarks.twins.tma import addmm as tma_addmm, bmm as tma_bmm, mm as tma_mm, sdpa as tma_sdpa

LOG2_E = 1.4426950408889634


def input_precision(dtype):
    """Choose how float32 products are made, as PyTorch was told. Other types have one way only."""
    tf32 = dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest"
    return "tf32" if tf32 else "ieee"


def rows_of(num_cols):
    """(rows a program, columns of its block): short rows share a program, so that it has some 4096 elements."""
    block = triton.next_power_of_2(num_cols)
    return max(1, 4096 // block), block


def power_of_two(name, size):
    if size & (size - 1):
        raise ValueError(f"{name}: expected a head dimension that is a power of two, got {size}")
    return size


def four_dimensions(shape, *strides):
    """The shape, and each tuple of strides, with dimensions joined where all allow it and four in number."""
    dims = []
    for size, *steps in zip(shape, *strides, strict=True):
        if size == 1:
            continue
        if dims and all(outer == size * step for outer, step in zip(dims[-1][1:], steps, strict=True)):
            size *= dims.pop()[0]
        dims.append((size, *steps))
    if len(dims) > 4:
        raise ValueError(f"elementwise twins: at most four dimensions that cannot be joined, got {tuple(shape)}")
    dims = [(1, *(0 for _ in strides))] * (4 - len(dims)) + dims
    return tuple(zip(*dims, strict=True))


def add(input, other, *, alpha=1):
    input, other = torch.broadcast_tensors(input, other)
    output = torch.empty(input.shape, dtype=input.dtype, device=input.device)
    shape, input_strides, other_strides = four_dimensions(output.shape, input.stride(), other.stride())
    add_twin.kernel[lambda meta: (triton.cdiv(output.numel(), meta["BLOCK_SIZE"]),)](
        input,
        other,
        output,
        float(alpha),
        output.numel(),
        *shape[1:],
        *input_strides,
        *other_strides,
        CONTIGUOUS=input.is_contiguous() and other.is_contiguous(),
    )
    return output


def silu(input):
    output = torch.empty(input.shape, dtype=input.dtype, device=input.device)
    shape, strides = four_dimensions(input.shape, input.stride())
    silu_twin.kernel[lambda meta: (triton.cdiv(output.numel(), meta["BLOCK_SIZE"]),)](
        input,
        output,
        output.numel(),
        *shape[1:],
        *strides,
        CONTIGUOUS=input.is_contiguous(),
    )
    return output


def softmax(input, dim):
    moved = input.movedim(dim, -1)
    flat = moved.reshape(-1, moved.shape[-1])
    output = torch.empty(flat.shape, dtype=input.dtype, device=input.device)
    rows, block = rows_of(flat.shape[1])
    softmax_twin.kernel[(triton.cdiv(flat.shape[0], rows),)](
        flat,
        output,
        *flat.stride(),
        output.stride(0),
        *flat.shape,
        ROWS=rows,
        BLOCK_SIZE=block,
    )
    return output.view(moved.shape).movedim(-1, dim)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    flat = input.reshape(-1, math.prod(normalized_shape))
    weight = None if weight is None else weight.reshape(-1)
    output = torch.empty(flat.shape, dtype=input.dtype, device=input.device)
    rows, block = rows_of(flat.shape[1])
    rms_norm_twin.kernel[(triton.cdiv(flat.shape[0], rows),)](
        flat,
        flat if weight is None else weight,
        output,
        *flat.stride(),
        0 if weight is None else weight.stride(0),
        output.stride(0),
        *flat.shape,
        eps,
        HAS_WEIGHT=weight is not None,
        ROWS=rows,
        BLOCK_SIZE=block,
    )
    return output.view(input.shape)


def mm(input, mat2):
    (m, k), n = input.shape, mat2.shape[1]
    output = torch.empty((m, n), dtype=input.dtype, device=input.device)
    if readable(input, mat2, output):
        (a, a_transposed), (b, b_transposed), (c, _) = describe(input), describe(mat2), describe(output)
        tma_mm.kernel[lambda meta: (programs(input.device, tiles(m, n, meta), meta["PERSISTENT"]),)](
            a,
            b,
            c,
            m,
            n,
            k,
            A_TRANSPOSED=a_transposed,
            B_TRANSPOSED=b_transposed,
            INPUT_PRECISION=input_precision(input.dtype),
        )
        return output
    mm_twin.kernel[lambda meta: (tiles(m, n, meta),)](
        input,
        mat2,
        output,
        m,
        n,
        k,
        *input.stride(),
        *mat2.stride(),
        *output.stride(),
        INPUT_PRECISION=input_precision(input.dtype),
    )
    return output


def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    (m, k), n = mat1.shape, mat2.shape[1]
    output = torch.empty((m, n), dtype=mat1.dtype, device=mat1.device)
    whole = torch.atleast_2d(input)
    if readable(mat1, mat2, output) and whole.shape in ((m, n), (1, n)) and readable(whole, transposed=False):
        (a, a_transposed), (b, b_transposed), (c, _) = describe(mat1), describe(mat2), describe(output)
        tma_addmm.kernel[lambda meta: (programs(mat1.device, tiles(m, n, meta), meta["PERSISTENT"]),)](
            describe(whole)[0],
            a,
            b,
            c,
            float(beta),
            float(alpha),
            m,
            n,
            k,
            A_TRANSPOSED=a_transposed,
            B_TRANSPOSED=b_transposed,
            INPUT_IS_ROW=whole.shape[0] == 1,
            INPUT_PRECISION=input_precision(mat1.dtype),
        )
        return output
    addmm_twin.kernel[lambda meta: (tiles(m, n, meta),)](
        input,
        mat1,
        mat2,
        output,
        float(beta),
        float(alpha),
        m,
        n,
        k,
        *input.expand(m, n).stride(),
        *mat1.stride(),
        *mat2.stride(),
        *output.stride(),
        INPUT_PRECISION=input_precision(mat1.dtype),
    )
    return output


def bmm(input, mat2):
    (batch, m, k), n = input.shape, mat2.shape[2]
    output = torch.empty((batch, m, n), dtype=input.dtype, device=input.device)
    if readable(input, mat2, output):
        (a, a_transposed), (b, b_transposed), (c, _) = describe(input), describe(mat2), describe(output)
        tma_bmm.kernel[lambda meta: (programs(input.device, batch * tiles(m, n, meta), meta["PERSISTENT"]),)](
            a,
            b,
            c,
            batch,
            m,
            n,
            k,
            A_TRANSPOSED=a_transposed,
            B_TRANSPOSED=b_transposed,
            INPUT_PRECISION=input_precision(input.dtype),
        )
        return output
    bmm_twin.kernel[lambda meta: (tiles(m, n, meta), batch)](
        input,
        mat2,
        output,
        m,
        n,
        k,
        *input.stride(),
        *mat2.stride(),
        *output.stride(),
        INPUT_PRECISION=input_precision(input.dtype),
    )
    return output


def repacked(weight):
    """A filter with its channels innermost, as `conv2d` reads it: a model repacks it once, not at every call."""
    return weight.contiguous(memory_format=torch.channels_last)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    stride, padding, dilation = (pair(value) for value in (stride, padding, dilation))
    input, weight = input.contiguous(memory_format=torch.channels_last), repacked(weight)
    n, _, h, w = input.shape
    k, c, r, s = weight.shape
    p, q = (
        (size + 2 * pad - dil * (kernel - 1) - 1) // step + 1
        for size, pad, dil, kernel, step in zip((h, w), padding, dilation, (r, s), stride, strict=True)
    )
    output = torch.empty((n, k, p, q), dtype=input.dtype, device=input.device)
    conv2d_twin.kernel[
        lambda meta: (
            triton.cdiv(n * p * q, meta["BLOCK_SIZE_M"]),
            triton.cdiv(k // groups, meta["BLOCK_SIZE_N"]),
            groups,
        )
    ](
        input,
        weight,
        input if bias is None else bias.contiguous(),
        output,
        n,
        h,
        w,
        k // groups,
        p,
        q,
        *(input.stride(dim) for dim in (0, 2, 3)),
        *(weight.stride(dim) for dim in (0, 2, 3)),
        *output.stride()[:2],
        *stride,
        *padding,
        *dilation,
        C=c,
        R=r,
        S=s,
        PADDED=max(padding) > 0,
        HAS_BIAS=bias is not None,
        INPUT_PRECISION=input_precision(input.dtype),
    )
    return output


def rope(input, sin, cos, interleaved=True):
    batch, seq_len, num_heads, head_dim = input.shape
    input, sin, cos = (tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in (input, sin, cos))
    sin, cos = (table.expand(batch, seq_len, -1) for table in (sin, cos))
    output = torch.empty(input.shape, dtype=input.dtype, device=input.device)
    block = triton.next_power_of_2(num_heads)
    rope_twin.kernel[(seq_len, batch, triton.cdiv(num_heads, block))](
        input,
        sin,
        cos,
        output,
        num_heads,
        *input.stride()[:3],
        *sin.stride()[:2],
        *cos.stride()[:2],
        *output.stride()[:3],
        INTERLEAVED=interleaved,
        WHOLE=sin.shape[-1] == head_dim,
        HEAD_DIM=power_of_two("rope", head_dim),
        BLOCK_SIZE_H=block,
    )
    return output


def sdpa(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    if dropout_p:
        raise ValueError("sdpa: the twin has no dropout")
    batch, num_heads, query_len, head_dim = query.shape
    group_size = num_heads // key.shape[1]
    if group_size != 1 and not enable_gqa:
        raise ValueError("sdpa: different numbers of heads need enable_gqa=True")
    scale = head_dim**-0.5 if scale is None else scale
    mask = additive_mask(attn_mask, query, key)
    output = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    if mask is None and readable(query, key, value, output, transposed=False):
        attend(query, key, value, output, None, is_causal, scale)
        return output
    sdpa_twin.kernel[lambda meta: (triton.cdiv(query_len, meta["BLOCK_SIZE_M"]), batch * num_heads)](
        query,
        key,
        value,
        query if mask is None else mask,
        output,
        scale * LOG2_E,
        num_heads,
        group_size,
        query_len,
        key.shape[2],
        *query.stride(),
        *key.stride(),
        *value.stride(),
        *((0,) * 4 if mask is None else mask.stride()),
        *output.stride(),
        IS_CAUSAL=is_causal,
        HAS_MASK=mask is not None,
        INPUT_PRECISION=input_precision(query.dtype),
        HEAD_DIM=power_of_two("sdpa", head_dim),
    )
    return output


def attend(query, key, value, output, lse, is_causal, scale):
    """Launch the twin that reads through descriptors; `lse` is written unless it is None."""
    batch, num_heads, query_len, head_dim = query.shape
    tensors = query, key, value, output
    whole = query_len % tma_sdpa.LARGEST_BLOCK == key.shape[2] % tma_sdpa.LARGEST_BLOCK == 0
    flat = whole and all(tensor.is_contiguous() for tensor in tensors)
    tma_sdpa.kernel[lambda meta: (triton.cdiv(query_len, meta["BLOCK_SIZE_M"]), batch * num_heads)](
        *(describe(tensor.view(-1, head_dim) if flat else tensor)[0] for tensor in tensors),
        lse,
        scale * LOG2_E,
        num_heads,
        key.shape[1],
        query_len,
        key.shape[2],
        FLAT=flat,
        IS_CAUSAL=is_causal,
        INPUT_PRECISION=input_precision(query.dtype),
        HEAD_DIM=power_of_two("sdpa", head_dim),
    )


def additive_mask(mask, query, key):
    """A mask of numbers to add to the scores, of shape (batch, heads, query length, key length); None stays None."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=query.dtype, device=mask.device).masked_fill(~mask, float("-inf"))
    return mask.expand(*query.shape[:3], key.shape[2])


def pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)

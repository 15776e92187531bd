"""`sdpa_with_lse`: the sdpa that has gradients and dropout, and returns what its backward needs beside the output.

`torch.ops.ninetoothed.sdpa` calls it, on tensors of four dimensions, where a gradient will be needed or weights are
dropped: (batch, heads, length, D), keys and values of as many heads, which may be fewer than the queries' and divide
them. `mask`: (batch or 1, heads or 1, queries, keys); `lengths`: (batch,); `sinks`: (heads,) or (batch, heads); `seed`:
an integer of no dimensions, None where nothing is dropped.
"""

import torch

from ninetoothed.errors import ArgumentError

from ..kernels import sdpa_with_lse as kernels
from ..kernels.attention import ADDITIVE_MASK
from ..registration import of_file
from . import sdpa_backward
from .layout import empty_in_order, is_contiguous
from .sdpa_backward import inputs, masking_of

# Divided by it, a sink of up to 1e8 is finite in float32.
LOWEST_SCALE = 1e-30


def empty_output(query, shape) -> torch.Tensor:
    """An empty result of attention, laid out as the queries are: (batch, length, heads, D), transposed, is common."""
    if is_contiguous(query) or query.ndim != len(shape) or len(shape) > 4 or 0 in query.stride():
        return query.new_empty(shape)
    leading = sorted(range(len(shape) - 1), key=query.stride, reverse=True)
    return empty_in_order(shape, (*leading, len(shape) - 1), query.dtype, query.device)


def scaled_above(query, scale) -> tuple[torch.Tensor, float]:
    """Return a query and a scale of the same scores, for a kernel: it takes the largest score before it scales.

    A product by 0 keeps NaN, as PyTorch's does. A sink divided by a scale near 0 would overflow.
    """
    return (query.neg(), -scale) if scale <= -LOWEST_SCALE else (query.mul(scale), 1.0)


def of_rows(sinks, output) -> torch.Tensor:
    """View sinks, one for each head or for each of each entry, as one for each row of an output of four dimensions."""
    return sinks[..., None, None].expand(*output.shape[:-1], 1)


def allocate(query, key, value, mask, lengths, sinks, seed, dropout_p, is_causal, scale, safe, softcap):
    if not query.ndim == key.ndim == value.ndim == 4 or key.shape[1] != value.shape[1]:
        raise ArgumentError("ninetoothed::sdpa_with_lse takes four dimensions; call ninetoothed::sdpa, which takes any")
    dtype = torch.float64 if query.dtype is torch.float64 else torch.float32
    parts = 2 if masking_of(mask) == ADDITIVE_MASK else 1
    output = empty_output(query, (*query.shape[:-1], value.shape[-1]))

    return output, query.new_empty((parts, *query.shape[:-1], 1), dtype=dtype)


def launch(outputs, query, key, value, mask, lengths, sinks, seed, dropout_p, is_causal, scale, safe, softcap):
    output, lse = outputs
    if 0 in query.shape[:3]:  # There are no queries.
        return
    flags = masking_of(mask), is_causal, not safe, lengths is not None, seed is not None
    if scale < LOWEST_SCALE:
        query, scale = scaled_above(query, scale)
    given = inputs(query, key, value, mask, lengths, seed, scale, dropout_p)
    options = softcap, None if sinks is None else of_rows(sinks, output)
    kernel = kernels.make(*(option is not None for option in options))
    kernel(*given, output, lse[0], lse[-1], *flags, *(option for option in options if option is not None))


def setup_context(ctx, inputs, output):
    *tensors, dropout_p, is_causal, scale, _, softcap = inputs
    ctx.options = dropout_p, is_causal, scale, softcap
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*tensors, *output)


def backward(ctx, grad, _):
    *of_tensors, _, of_sinks = ctx.needs_input_grad[:6]
    needed = (*of_tensors, of_sinks)
    *tensors, output, lse = ctx.saved_tensors
    # The gradients are a function of the inputs and of `grad`: see `sdpa_second_backward`.
    found = sdpa_backward.operator(*tensors, grad, output.detach(), lse, *ctx.options, needed)
    *grads, sinks_grad = (each if is_needed else None for each, is_needed in zip(found, needed))

    return *grads, None, sinks_grad, *(None,) * 6


operator = of_file(
    "sdpa_with_lse(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? lengths, Tensor? sinks, "
    "Tensor? seed, float dropout_p, bool is_causal, float scale, bool safe, float? softcap) -> (Tensor, Tensor)",
    globals(),
)

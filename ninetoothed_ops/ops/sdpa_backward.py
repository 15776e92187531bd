"""Gradients of `sdpa_with_lse`, block by block: none holds a number for each query and key, but that of a mask.

They take what the forward took and kept, the gradient of its output, and `delta`, which they share.
"""

import torch

from ..autograd import no_backward
from ..kernels import sdpa_backward_delta, sdpa_backward_key_value, sdpa_backward_mask, sdpa_backward_query
from ..kernels.attention import ADDITIVE_MASK, BOOLEAN_MASK, NO_MASK
from ..registration import register


def inputs(query, key, value, mask, lengths, seed, scale, dropout_p) -> tuple:
    """Return the first parameters of the kernels; where something is missing, a tensor or number that is not read."""
    scores = (*query.shape[:-1], key.shape[-2])
    mask = query.new_empty(1).expand(scores) if mask is None else mask.expand(scores)
    lengths = query.new_empty(query.shape[:1]) if lengths is None else lengths

    return query, key, value, mask, lengths, 0 if seed is None else seed, scale, dropout_p


def masking_of(mask) -> int:
    """Tell how kernels read a mask."""
    if mask is None:
        return NO_MASK
    return BOOLEAN_MASK if mask.dtype is torch.bool else ADDITIVE_MASK


def gradients(needed, grad, query, key, value, mask, lengths, seed, output, lse, dropout_p, is_causal, scale) -> list:
    """Compute the gradients of query, key, value and mask that are needed; None for the others."""
    delta = delta_operator(grad, output)
    arguments = query, key, value, mask, lengths, seed, grad, lse, delta, dropout_p, is_causal, scale
    grads = [None] * 4
    if needed[0]:
        grads[0] = query_operator(*arguments)
    if needed[1] or needed[2]:
        grads[1:3] = key_value_operator(*arguments)
    if needed[3]:
        grads[3] = mask_operator(*arguments)

    return [each if is_needed else None for each, is_needed in zip(grads, needed)]


def _allocate_delta(grad, output):
    dtype = torch.float64 if output.dtype is torch.float64 else torch.float32
    return output.new_empty((*output.shape[:-1], 1), dtype=dtype)


def _launch_delta(delta, grad, output):
    sdpa_backward_delta.make()(grad, output, delta)


def _allocate_query(query, *_):
    return torch.empty_like(query)


def _launch_query(query_grad, query, key, value, mask, lengths, seed, grad, lse, delta, dropout_p, is_causal, scale):
    given = inputs(query, key, value, mask, lengths, seed, scale, dropout_p)
    flags = masking_of(mask), is_causal, lengths is not None, seed is not None
    sdpa_backward_query.make()(*given, grad, lse[0], lse[-1], delta, query_grad, *flags)


def _allocate_key_value(query, key, value, *_):
    return torch.empty_like(key), torch.empty_like(value)


def _launch_key_value(grads, query, key, value, mask, lengths, seed, grad, lse, delta, dropout_p, is_causal, scale):
    given = inputs(query, key, value, mask, lengths, seed, scale, dropout_p)
    flags = masking_of(mask), is_causal, lengths is not None, seed is not None
    sdpa_backward_key_value.make()(*given, grad, lse[0], lse[-1], delta, *grads, *flags)


def _allocate_mask(query, key, value, mask, *_):
    return torch.empty_like(mask, memory_format=torch.contiguous_format)


def _launch_mask(mask_grad, query, key, value, mask, lengths, seed, grad, lse, delta, dropout_p, is_causal, scale):
    _, _, _, _, *others = inputs(query, key, value, mask, lengths, seed, scale, dropout_p)
    flags = is_causal, lengths is not None, seed is not None
    sdpa_backward_mask.make()(query, key, value, mask, *others, grad, lse[0], lse[-1], delta, mask_grad, *flags)


def _register(name, arguments, result, allocate, launch):
    name = f"ninetoothed::sdpa_backward_{name}"

    def backward(ctx, *grads):
        # Raised as late as here: `torch.func.grad` records all that a backward calls, for the case of another one.
        raise no_backward(name)

    return register(f"{name}({arguments}) -> {result}", allocate, launch, backward=backward, replay=True)


_ARGUMENTS = (
    "Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? lengths, Tensor? seed, Tensor grad, Tensor lse, "
    "Tensor delta, float dropout_p, bool is_causal, float scale"
)

delta_operator = _register("delta", "Tensor grad, Tensor output", "Tensor", _allocate_delta, _launch_delta)
query_operator = _register("query", _ARGUMENTS, "Tensor", _allocate_query, _launch_query)
key_value_operator = _register("key_value", _ARGUMENTS, "(Tensor, Tensor)", _allocate_key_value, _launch_key_value)
mask_operator = _register("mask", _ARGUMENTS, "Tensor", _allocate_mask, _launch_mask)

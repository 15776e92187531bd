"""Gradients of `sdpa_with_lse`, block by block: none holds a number for each query and key, but that of a mask.

They take what the forward took and kept, the gradient of its output, and `delta`, which they share. Those of gradients
are in `sdpa_second_backward`.
"""

import functools

import torch

from ..kernels import sdpa_backward_delta, sdpa_backward_key_value, sdpa_backward_mask, sdpa_backward_query
from ..kernels.attention import ADDITIVE_MASK, BOOLEAN_MASK, LOG2E, NO_MASK
from ..registration import register
from . import sdpa_second_backward


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


def gradients(needed, grad, query, key, value, mask, lengths, sinks, seed, output, lse, *options) -> list:
    """Compute the gradients of query, key, value, mask and sinks that are needed; None for the others."""
    # What the gradients are differentiated by is what `sdpa_second_backward` says, whatever `delta` comes from.
    delta = delta_operator(grad.detach(), output.detach())
    arguments = query, key, value, mask, lengths, sinks, seed, grad, lse, delta, *options
    grads = [None] * 5
    if needed[0]:
        grads[0] = query_operator(*arguments)
    if needed[1] or needed[2]:
        grads[1:3] = key_value_operator(*arguments)
    if needed[3]:
        grads[3] = mask_operator(*arguments)
    if needed[4]:
        grads[4] = sinks_operator(*arguments)

    return [each if is_needed else None for each, is_needed in zip(grads, needed)]


def _allocate_delta(grad, output):
    dtype = torch.float64 if output.dtype is torch.float64 else torch.float32
    return output.new_empty((*output.shape[:-1], 1), dtype=dtype)


def _launch_delta(delta, grad, output):
    sdpa_backward_delta.make()(grad, output, delta)


def _allocate_query(query, *_):
    return torch.empty_like(query)


def _allocate_key_value(query, key, value, *_):
    return torch.empty_like(key), torch.empty_like(value)


def _allocate_mask(query, key, value, mask, *_):
    return torch.empty_like(mask, memory_format=torch.contiguous_format)


def _launch(kernels, grads, query, key, value, mask, lengths, sinks, seed, grad, lse, delta, *options):
    """Launch the kernel of some gradients; that of a mask's reads the mask as it is, which was added."""
    dropout_p, is_causal, scale, softcap = options
    query, key, value, expanded, *others = inputs(query, key, value, mask, lengths, seed, scale, dropout_p)
    is_of_mask = kernels is sdpa_backward_mask
    mask, masking = (mask, ()) if is_of_mask else (expanded, (masking_of(mask),))
    flags = *masking, is_causal, lengths is not None, seed is not None, *(() if softcap is None else (softcap,))
    grads = grads if isinstance(grads, tuple) else (grads,)
    kernel = kernels.make(softcap is not None)
    kernel(query, key, value, mask, *others, grad, lse[0], lse[-1], delta, *grads, *flags)


def _allocate_sinks(query, key, value, mask, lengths, sinks, *_):
    return torch.empty_like(sinks)


def _launch_sinks(sinks_grad, query, key, value, mask, lengths, sinks, seed, grad, lse, delta, *_):
    """Sum up -weight * delta over the rows of each head, the weight that of its sink."""
    scores = sinks[:, None, None].to(lse.dtype)
    scores = scores - lse[1] if len(lse) == 2 else scores
    weights = torch.exp2(scores * LOG2E - lse[0])
    sinks_grad.copy_((weights * delta).sum((0, 2, 3)).neg())


def _register(name, result, allocate, launch, *wanted, replay=True):
    arguments = (
        "Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? lengths, Tensor? sinks, Tensor? seed, "
        "Tensor grad, Tensor lse, Tensor delta, float dropout_p, bool is_causal, float scale, float? softcap"
    )
    return register(
        f"ninetoothed::sdpa_backward_{name}({arguments}) -> {result}",
        allocate,
        launch,
        backward=sdpa_second_backward.backward_of(*wanted),
        setup_context=sdpa_second_backward.setup_context,
        replay=replay,
    )


delta_operator = register(
    "ninetoothed::sdpa_backward_delta(Tensor grad, Tensor output) -> Tensor",
    _allocate_delta,
    _launch_delta,
    replay=True,
)
_launch_query, _launch_key_value, _launch_mask = (
    functools.partial(_launch, kernels)
    for kernels in (sdpa_backward_query, sdpa_backward_key_value, sdpa_backward_mask)
)
query_operator = _register("query", "Tensor", _allocate_query, _launch_query, "query")
key_value_operator = _register("key_value", "(Tensor, Tensor)", _allocate_key_value, _launch_key_value, "key", "value")
mask_operator = _register("mask", "Tensor", _allocate_mask, _launch_mask, "mask")
sinks_operator = _register("sinks", "Tensor", _allocate_sinks, _launch_sinks, "sinks", replay=False)

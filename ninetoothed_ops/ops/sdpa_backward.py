"""Gradients of `sdpa_with_lse`, block by block: none holds a number for each query and key, but that of a mask.

`sdpa_backward(...)` takes what the forward took and kept, and the gradient of its output. Those of gradients are in
`sdpa_second_backward`.
"""

import itertools

import torch

from ninetoothed.runtime.dispatch import launch_all

from ..kernels import (
    sdpa_backward_delta,
    sdpa_backward_exact_delta,
    sdpa_backward_key_value,
    sdpa_backward_mask,
    sdpa_backward_query,
)
from ..kernels.attention import ADDITIVE_MASK, BOOLEAN_MASK, LOG2E, NO_MASK
from ..registration import of_file
from . import sdpa_second_backward


def inputs(query, key, value, mask, lengths, seed, scale, dropout_p, by_columns=False) -> tuple:
    """Return the first parameters of the kernels; where something is missing, a tensor or number that is not read.

    by_columns: whether programs have a block of keys each, and not of queries. A mask that is missing has the size that
    programs agree on and no other: one of all scores would have indices of 64 bits.
    """
    rows, columns = query.shape[-2], key.shape[-2]
    if mask is None:
        mask = query.new_empty(1).expand(*query.shape[:2], *((1, columns) if by_columns else (rows, 1)))
    else:
        mask = mask.expand(*query.shape[:2], rows, columns)
    lengths = query.new_empty(query.shape[:1]) if lengths is None else lengths

    return query, key, value, mask, lengths, 0 if seed is None else seed, scale, dropout_p


def masking_of(mask) -> int:
    """Tell how kernels read a mask."""
    if mask is None:
        return NO_MASK
    return BOOLEAN_MASK if mask.dtype is torch.bool else ADDITIVE_MASK


def gradients_of(query, value, needed) -> list[tuple[bool, bool]]:
    """Tell for each launch of `sdpa_backward_key_value` whether it is of keys, and whether of values.

    needed: whether each of the two is wanted. One launch computes both; with halves and heads wider than 128 two take
    less time, though scores and weights are computed in both.
    """
    if query.dtype.itemsize == 2 and max(query.shape[-1], value.shape[-1]) > 128:
        return [half for half, is_needed in zip(((True, False), (False, True)), needed, strict=True) if is_needed]
    return [(True, True)] if any(needed) else []


def allocate(
    query, key, value, mask, lengths, sinks, seed, grad, output, lse, dropout_p, is_causal, scale, softcap, needed
):
    to_query, to_key, to_value, to_mask, to_sinks = needed
    of_keys, of_values = (any(each) for each in zip((False, False), *gradients_of(query, value, (to_key, to_value))))
    found = [
        torch.empty_like(each) if is_needed else query.new_empty(1)
        for each, is_needed in ((query, to_query), (key, of_keys), (value, of_values), (sinks, to_sinks))
    ]
    of_mask = torch.empty_like(mask, memory_format=torch.contiguous_format) if to_mask else query.new_empty(1)

    return *found[:3], of_mask, found[3]


def launch(
    grads, query, key, value, mask, lengths, sinks, seed, grad, output, lse,
    dropout_p, is_causal, scale, softcap, needed,
):  # fmt: skip
    """Launch a kernel for each that is needed; keys and values may share one. That of a mask reads it as it is."""
    query_grad, _, _, mask_grad, sinks_grad = grads
    if 0 in query.shape[:3]:  # There are no queries.
        for each in grads:
            each.zero_()
        return
    given, by_columns = (
        inputs(query, key, value, mask, lengths, seed, scale, dropout_p, by_columns) for by_columns in (False, True)
    )
    delta = lse.new_empty(lse.shape[1:])
    calls: list[tuple] = [(sdpa_backward_delta.make(), (grad, output, delta))]
    shared, masking, is_capped = (grad, lse[0], lse[-1], delta), masking_of(mask), softcap is not None
    flags = is_causal, lengths is not None, seed is not None, *((softcap,) if is_capped else ())
    is_wide = max(query.shape[-1], value.shape[-1]) > 128
    if needed[3] and output.dtype is torch.bfloat16:
        # A mask that is broadcast has sums over rows, each element of which is off by what a rounded output lost.
        exact = torch.empty_like(delta)
        calls.append((sdpa_backward_exact_delta.make(is_capped, is_wide), (*given, *shared[:3], exact, *flags)))
        launch_all(calls)
        delta.copy_(torch.where(delta.isnan(), delta, exact))
        calls = []

    if needed[0]:
        calls.append((sdpa_backward_query.make(is_capped), (*given, *shared, query_grad, masking, *flags)))
    for half in gradients_of(query, value, needed[1:3]):
        kernel = sdpa_backward_key_value.make(is_capped, *half)
        calls.append((kernel, (*by_columns, *shared, *itertools.compress(grads[1:3], half), masking, *flags)))
    if needed[3]:
        masked = (*given[:3], mask, *given[4:], *shared, mask_grad, *flags)
        calls.append((sdpa_backward_mask.make(is_capped, is_wide), masked))
    launch_all(calls)
    if needed[4]:
        _sum_sinks(sinks_grad, sinks, lse, delta)


def _sum_sinks(sinks_grad, sinks, lse, delta):
    """Sum up -weight * delta over the rows of each sink, the weight that of the sink."""
    scores = sinks[..., None, None].to(lse.dtype)
    scores = scores - lse[1] if len(lse) == 2 else scores
    weights = torch.exp2(scores * LOG2E - lse[0])
    sinks_grad.copy_((weights * delta).sum((2, 3)).neg().sum_to_size(sinks.shape))


# What is not needed is one element of no meaning (calls that give empty tensors are not replayed).
operator = of_file(
    "sdpa_backward(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? lengths, Tensor? sinks, "
    "Tensor? seed, Tensor grad, Tensor output, Tensor lse, float dropout_p, bool is_causal, float scale, "
    "float? softcap, bool[5] needed) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    globals(),
    backward=sdpa_second_backward.backward,
    setup_context=sdpa_second_backward.setup_context,
)

"""The definition of attention, with all that it may be given, in float64."""

import math

import torch


def attention(
    query, key, value, mask=None, lengths=None, is_causal=False, scale=None, sinks=None, softcap=None, weights=1.0
):
    """`weights` are what dropout multiplies them by. A row that sees nothing gives zeros."""
    query, key, value = (each.double() for each in (query, key, value))
    if lengths is not None:
        lengths = torch.as_tensor(lengths, device=key.device)[:, None, None, None]
        missing = torch.arange(key.shape[2], device=key.device)[:, None] >= lengths
        key, value = (each.masked_fill(missing, 0.0) for each in (key, value))
    group = query.shape[1] // key.shape[1]
    key, value = (each.repeat_interleave(group, 1) for each in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else scores + mask
    if is_causal:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -math.inf)
    if lengths is not None:
        scores = scores.masked_fill(missing.mT, -math.inf)
    # A row that sees nothing sees this column alone, which has no value.
    sinks = scores.new_full((scores.shape[1],), -1e300) if sinks is None else sinks.double()
    column = sinks[:, None, None].expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat((scores, column), -1), -1)[..., :-1] * weights @ value

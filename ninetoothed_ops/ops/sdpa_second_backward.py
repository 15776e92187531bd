"""Gradients of the gradients of attention, by its definition in PyTorch's own operations.

These have derivatives of every order, and hold a number for each query and key. What `sdpa_backward` computes is
a function of the inputs and of the gradient of the output: `output` and `lse` are computed from those, and get no
gradient of their own.
"""

import torch

from ..autocast import without_autocast
from ..kernels import sdpa_dropout
from ..registration import of_file

NAMES = "query", "key", "value", "mask", "sinks"


def setup_context(ctx, inputs, output):
    query, key, value, mask, lengths, sinks, seed, grad, _, _, *ctx.options, needed = inputs
    ctx.wanted = [name if is_needed else None for name, is_needed in zip(NAMES, needed)]
    ctx.save_for_backward(query, key, value, mask, sinks, lengths, seed, grad)


def backward(ctx, *grads):
    *inputs, lengths, seed, grad = ctx.saved_tensors
    dropout_p, is_causal, scale, softcap = ctx.options
    given = {name: value for name, value in zip(NAMES, inputs) if value is not None}
    constant = {"lengths": lengths, "is_causal": is_causal, "scale": scale, "softcap": softcap}
    if seed is not None:
        scores = (*inputs[0].shape[:-1], inputs[1].shape[-2])
        constant["factors"] = dropout_operator(seed, scores, grad.dtype is torch.float64, dropout_p)
    if "mask" in given and given["mask"].dtype is torch.bool:
        constant["mask"] = given.pop("mask")

    def gradients(grad, given):
        found = torch.func.vjp(lambda given: attention(**given, **constant), given)[1](grad)[0]
        return {name: found[name] for name in ctx.wanted if name is not None}

    with without_autocast(grad.device.type):
        of_wanted = {name: each for name, each in zip(ctx.wanted, grads) if name is not None}
        to_grad, found = torch.func.vjp(gradients, grad, given)[1](of_wanted)
    to_query, to_key, to_value, to_mask, to_sinks = map(found.get, NAMES)

    return to_query, to_key, to_value, to_mask, None, to_sinks, None, to_grad, *(None,) * 7


def allocate_dropout(seed, shape, is_double, dropout_p):
    return torch.empty(shape, dtype=torch.float64 if is_double else torch.float32, device=seed.device)


def launch_dropout(factors, seed, shape, is_double, dropout_p):
    sdpa_dropout.make()(factors, seed, dropout_p)


dropout_operator = of_file(
    "sdpa_dropout(Tensor seed, SymInt[] shape, bool is_double, float dropout_p) -> Tensor",
    {"allocate": allocate_dropout, "launch": launch_dropout},
)


def attention(query, key, value, mask=None, sinks=None, *, factors=1.0, lengths, is_causal, scale, softcap):
    """Compute attention by its definition, in float32 at least; a row that sees nothing gives zeros."""
    dtype, computed = query.dtype, torch.promote_types(query.dtype, torch.float32)
    group, keys = query.shape[1] // key.shape[1], torch.arange(key.shape[2], device=key.device)
    if lengths is not None:
        is_there = keys < lengths[:, None, None, None]
        key, value = (each.masked_fill(~is_there.mT, 0.0) for each in (key, value))
    key, value = (each.to(computed).repeat_interleave(group, 1) for each in (key, value))
    scores = query.to(computed) @ key.mT * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask
    if is_causal:
        rows = torch.arange(query.shape[2], device=query.device)
        scores = scores.masked_fill(keys > rows[:, None], -torch.inf)
    if lengths is not None:
        scores = scores.masked_fill(~is_there, -torch.inf)
    if sinks is None:
        # PyTorch's softmax of a row that sees nothing is NaN.
        sees = (scores != -torch.inf).any(-1, keepdim=True)
        weights = torch.softmax(scores.masked_fill(~sees, 0.0), -1) * sees
    else:
        column = sinks.to(computed)[..., None, None].expand(*scores.shape[:-1], 1)
        weights = torch.softmax(torch.cat((scores, column), -1), -1)[..., :-1]

    return ((weights * factors) @ value).to(dtype)

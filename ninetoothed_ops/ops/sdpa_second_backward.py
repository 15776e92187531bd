"""Gradients of the gradients of attention, by its definition in PyTorch's own operations.

These have derivatives of every order, and hold a number for each query and key. What an operator of `sdpa_backward`
computes is a function of the inputs and of the gradient of the output: `lse` and `delta` are computed from those, and
get no gradient of their own.
"""

import torch

from ninetoothed.errors import UnsupportedError

from ..autocast import without_autocast

NAMES = "query", "key", "value", "mask", "sinks"


def setup_context(ctx, inputs, output):
    query, key, value, mask, lengths, sinks, seed, grad, _, _, *ctx.options = inputs
    ctx.is_dropped = seed is not None
    ctx.save_for_backward(query, key, value, mask, sinks, lengths, grad)


def backward_of(*wanted):
    """Make the backward of an operator that computes the gradients of these inputs."""

    def backward(ctx, *grads):
        if ctx.is_dropped:
            raise UnsupportedError(
                "ninetoothed::sdpa has no second derivative with dropout yet; set dropout_p to 0, or call "
                "torch.nn.functional.scaled_dot_product_attention"
            )
        *inputs, lengths, grad = ctx.saved_tensors
        _, is_causal, scale, softcap = ctx.options
        given = {name: value for name, value in zip(NAMES, inputs) if value is not None}
        constant = {"lengths": lengths, "is_causal": is_causal, "scale": scale, "softcap": softcap}
        constant |= {
            name: given.pop(name) for name in ("mask",) if name in given and not given[name].is_floating_point()
        }

        def gradients(grad, given):
            found = torch.func.vjp(lambda given: attention(**given, **constant), given)[1](grad)[0]
            return tuple(found[name] for name in wanted)

        with without_autocast(grad.device.type):
            to_grad, found = torch.func.vjp(gradients, grad, given)[1](grads)
        to_query, to_key, to_value, to_mask, to_sinks = map(found.get, NAMES)

        return to_query, to_key, to_value, to_mask, None, to_sinks, None, to_grad, *(None,) * 6

    return backward


def keep_both(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def backward_of_delta(ctx, grad):
    of_output, output = ctx.saved_tensors

    return (grad * output).to(of_output.dtype), (grad * of_output).to(output.dtype)


def attention(query, key, value, mask=None, sinks=None, *, lengths, is_causal, scale, softcap):
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
        column = sinks.to(computed)[:, None, None].expand(*scores.shape[:-1], 1)
        weights = torch.softmax(torch.cat((scores, column), -1), -1)[..., :-1]

    return (weights @ value).to(dtype)

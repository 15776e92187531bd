"""`sdpa_with_sinks`: attention in which each head has a sink, one more score of every row, which has no value.

    weights = softmax([query @ key^T * scale + mask, sink]) without the last
    output = (weights * kept / (1 - rate)) @ value

A sink adds to the sum that divides the weights. So it scales the rows of what `sdpa_with_lse` gives, and takes part in
their log-sum-exp; with that the gradients of the others are those of `sdpa`. Arguments are as those of `sdpa_with_lse`;
`sinks`: (heads,).
"""

import torch

from ninetoothed.errors import ArgumentError

from ..kernels.attention_backward import LOG2E
from ..registration import register
from . import sdpa_with_lse
from .sdpa_backward import delta_operator, gradients


def allocate(query, key, value, sinks, mask, seed, dropout_p, is_causal, scale):
    if sinks.shape != query.shape[1:2]:
        raise ArgumentError(
            f"ninetoothed::sdpa_with_sinks takes a sink for each head, of the shape {tuple(query.shape[1:2])}, "
            f"but got {tuple(sinks.shape)}"
        )
    return sdpa_with_lse.allocate(query, key, value, mask, None, seed, dropout_p, is_causal, scale, True)


def launch(outputs, query, key, value, sinks, mask, seed, dropout_p, is_causal, scale):
    output, lse = outputs
    sdpa_with_lse.launch(outputs, query, key, value, mask, None, seed, dropout_p, is_causal, scale, True)
    total = torch.logaddexp2(lse[0], _relative(sinks, lse))
    # Of a row that sees nothing, each weight is 0, for which lse is infinite.
    output.mul_(torch.where(lse[0] == float("inf"), 0.0, torch.exp2(lse[0] - total)))
    lse[0].copy_(total)


def _relative(sinks, lse) -> torch.Tensor:
    """Give sinks the base of lse, and subtract the peaks that it is relative to where it is in two parts."""
    sinks = sinks[:, None, None].to(lse.dtype)
    return (sinks - lse[1] if len(lse) == 2 else sinks) * LOG2E


def setup_context(ctx, inputs, output):
    *tensors, dropout_p, is_causal, scale = inputs
    ctx.options = dropout_p, is_causal, scale
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*tensors, *output)


def backward(ctx, grad, _):
    query, key, value, sinks, mask, seed, output, lse = ctx.saved_tensors
    of_query, of_key, of_value, of_sinks, of_mask, *_ = ctx.needs_input_grad
    needed = of_query, of_key, of_value, of_mask
    found = gradients(needed, grad, query, key, value, mask, None, seed, output, lse, *ctx.options)
    sinks_grad = None
    if of_sinks:
        weights = torch.exp2(_relative(sinks, lse) - lse[0])
        sinks_grad = -(weights * delta_operator(grad, output)).sum((0, 2, 3)).to(sinks.dtype)

    return *found[:3], sinks_grad, found[3], *(None,) * 4


operator = register(
    "ninetoothed::sdpa_with_sinks(Tensor query, Tensor key, Tensor value, Tensor sinks, Tensor? mask, Tensor? seed, "
    "float dropout_p, bool is_causal, float scale) -> (Tensor, Tensor)",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    autocast=torch.get_autocast_dtype,
)

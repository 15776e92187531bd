"""The decoder layer of transformers' Llama, Mistral and Qwen models: a sum and the norm behind it are one launch."""

import inspect
from typing import Any, ClassVar

import torch
from torch import nn

from ninetoothed.runtime.private import has_global_hook, has_transforms, may_have_tangents, runs_forward_alone

from ..autocast import is_enabled
from ..ops.add_rms_norm import operator as add_rms_norm
from ..ops.rms_norm import gradients, operator as rms_norm
from .overrides import are_overridden, are_recorded
from .residual import AHEAD, NEXT, NormedAhead, are_alike, eps_of
from .rms_norm import NTRMSNorm
from .substitute import Substitute, is_outdated, kind_of, own_forward

# Adds for no norm.
NONE = NormedAhead()


class NTDecoderLayer(Substitute):
    """A layer with `input_layernorm`, `self_attn`, `post_attention_layernorm` and `mlp`, on `ninetoothed.add_rms_norm`.

    `swap_modules(model, join=True)` puts it in the place of the decoder layers of transformers' models:

        sum = hidden_states + self_attn(input_layernorm(hidden_states))
        output = sum + mlp(post_attention_layernorm(sum))

    Each sum is normed where it is added, the second by the norm of the next layer or of the model. In training and in
    compiled code that is done of the first sum alone: a checkpoint or the graph of one layer knows nothing of the next.
    In backward, the gradients of hidden_states are added where that of the first norm is computed.
    """

    # The arguments that the forward replaced hands on to its attention, each by its name.
    passed: ClassVar[frozenset[str]]
    input_layernorm: nn.Module
    self_attn: nn.Module
    post_attention_layernorm: nn.Module
    mlp: nn.Module

    @classmethod
    def facts(cls, replaced: type[nn.Module]) -> dict[str, Any]:
        parameters = list(inspect.signature(replaced.forward).parameters.values())[2:]
        return {"passed": frozenset(each.name for each in parameters if each.kind is not each.VAR_KEYWORD)}

    def forward(self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        # Asked for once: another thread may take the swap back meanwhile, and `self` lose what its class holds.
        passed = getattr(self, "passed", None)
        if passed is None or is_outdated(self) or args or not passed.issubset(kwargs):
            return own_forward(self)(self, hidden_states, *args, **kwargs)
        norm, residual = self.input_layernorm, hidden_states
        if _is_plain_and_recorded(norm, hidden_states):
            normed, residual = _NormBeside.apply(hidden_states, norm.weight, eps_of(norm))
        else:
            # Called here: `residual` reads who calls it off the frames.
            normed = norm(hidden_states)
        attended, _ = self.self_attn(hidden_states=normed, **kwargs)
        normed, total = _summed_and_normed(self.post_attention_layernorm, attended, residual)
        changed = self.mlp(normed)
        if self.training or torch.compiler.is_compiling():
            return total + changed
        return vars(self).get(NEXT, NONE).add(changed, total, self)


class _NormBeside(torch.autograd.Function):
    """The norm of an input, and the input: its gradients by both are added by the kernel of the norm's."""

    @staticmethod
    def forward(input: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
        return rms_norm(input, weight.shape, weight, eps), input.view_as(input)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        input, weight, ctx.eps = inputs
        ctx.save_for_backward(input, weight)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple:
        (of_norm, beside), (input, weight) = grads, ctx.saved_tensors
        to_input, to_weight, _ = ctx.needs_input_grad
        if of_norm is None:
            return beside, None, None
        addend = beside if to_input else None
        of_input, of_weight = gradients(
            of_norm, input, weight.shape, weight, ctx.eps, (to_input, to_weight), addend
        )  # fmt: skip
        return of_input if to_input else None, of_weight if to_weight else None, None


def _is_plain_and_recorded(norm: nn.Module, input: torch.Tensor) -> bool:
    """Tell whether a norm does no more than its kernel, and will have a gradient for an input of one type with it."""
    # The class first: see `joint._are_plain`.
    weight = norm._parameters.get("weight") if NTRMSNorm is kind_of(norm) and runs_forward_alone(norm) else None
    if weight is None or has_global_hook() or has_transforms() or may_have_tangents() or are_overridden(input, weight):
        return False
    # Autocast may give a norm another type than its input's.
    is_cast = is_enabled(input.device.type)
    return are_alike(input, input, weight) and are_recorded(input) and not is_cast


def _summed_and_normed(
    norm: nn.Module, input: torch.Tensor, residual: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the norm of `residual + input`, and that sum, where nothing can come between the two."""
    # The class first: see `joint._are_plain`.
    weight = norm._parameters.get("weight") if NTRMSNorm is kind_of(norm) and runs_forward_alone(norm) else None
    is_observed = has_global_hook() or has_transforms() or are_overridden(input, residual, weight)
    if weight is None or is_observed or not are_alike(input, residual, weight):
        total = residual + input
        return norm(total), total
    return add_rms_norm(input, residual, weight, eps_of(norm))


def link_all(model: nn.Module) -> None:
    """Let each layer of a model know the norm that gets what it gives: that of the next layer, or of the model.

    A norm that is none of them in the end is added for in vain, and gives what it always gave.
    """
    for parent in model.modules():
        for layers in parent.children():
            norm, caller = getattr(parent, "norm", None), None
            for layer in reversed(layers) if isinstance(layers, nn.ModuleList) else ():
                if isinstance(layer, NTDecoderLayer) and NTRMSNorm is kind_of(norm):
                    vars(layer)[NEXT] = vars(norm)[AHEAD] = NormedAhead(norm, caller, parent, type(layer))
                norm, caller = getattr(layer, "input_layernorm", None), layer

"""The decoder layer of transformers' Llama, Mistral and Qwen models: a sum and the norm behind it are one launch."""

import inspect
from typing import Any, ClassVar

import torch
from torch import nn

from ninetoothed.runtime.private import has_global_hook, has_transforms, runs_forward_alone

from ..ops.add_rms_norm import operator as add_rms_norm
from .overrides import are_overridden
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
        attended, _ = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **kwargs)
        normed, total = _summed_and_normed(self.post_attention_layernorm, attended, hidden_states)
        changed = self.mlp(normed)
        if self.training or torch.compiler.is_compiling():
            return total + changed
        return vars(self).get(NEXT, NONE).add(changed, total, self)


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

"""The decoder layer of transformers' Llama, Mistral and Qwen models: a sum and the norm behind it are one launch."""

import functools
import inspect
from typing import Any, ClassVar, SupportsIndex

import torch
from torch import nn

from ninetoothed.errors import ArgumentTypeError
from ninetoothed.runtime.private import has_global_hook, has_transforms, runs_forward_alone

from ..ops.add_rms_norm import operator as add_rms_norm
from .overrides import are_overridden
from .residual import AHEAD, NEXT, NormedAhead, ahead_of, are_alike, eps_of
from .rms_norm import NTRMSNorm

# Adds for no norm.
NONE = NormedAhead()


class NTDecoderLayer(nn.Module):
    """A layer with `input_layernorm`, `self_attn`, `post_attention_layernorm` and `mlp`, on `ninetoothed.add_rms_norm`.

    It exists only in the place of a decoder layer of transformers (`swap_modules(model, join=True)` puts it there, as a
    subclass of that layer's class too), keeps all that this holds, and is called the same way:

        sum = hidden_states + self_attn(input_layernorm(hidden_states))
        output = sum + mlp(post_attention_layernorm(sum))

    Each sum is added by the norm behind it, the second by that of the next layer or of the model. In compiled code that
    is done of the first sum alone: the graph of one layer knows nothing of the next. In training the layer's own
    forward runs.
    """

    replaced: ClassVar[type[nn.Module]]
    # The arguments that the forward replaced hands on to its attention, each by its name.
    passed: ClassVar[frozenset[str]]
    input_layernorm: nn.Module
    self_attn: nn.Module
    post_attention_layernorm: nn.Module
    mlp: nn.Module

    def __init__(self, *_: Any, **__: Any) -> None:
        raise ArgumentTypeError(
            "NTDecoderLayer cannot be made from arguments: ninetoothed_ops.swap_modules(model, join=True) puts it in "
            "the place of a model's decoder layers."
        )

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple:
        """Let copies and pickles know the class by the one that it replaced, which can be imported."""
        return _make, (type(self).replaced,), self.__dict__

    def forward(self, hidden_states: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        # Asked for once: another thread may take the swap back meanwhile, and `self` lose the methods of this class.
        passed = getattr(self, "passed", None)
        if passed is None or self.training or args or not passed.issubset(kwargs):
            cls = type(self)
            return getattr(cls, "replaced", cls).forward(self, hidden_states, *args, **kwargs)
        attended, _ = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **kwargs)
        norm = self.post_attention_layernorm
        if torch.compiler.is_compiling():
            normed, total = _summed_and_normed(norm, attended, hidden_states)
            return total + self.mlp(normed)
        total = vars(norm).get(AHEAD, NONE).add(attended, hidden_states)
        return vars(self).get(NEXT, NONE).add(self.mlp(norm(total)), total, self)


def _summed_and_normed(
    norm: nn.Module, input: torch.Tensor, residual: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the norm of `residual + input`, and that sum, where nothing can come between the two."""
    # The class first: see `joint._are_plain`.
    weight = norm._parameters.get("weight") if NTRMSNorm is type(norm) and runs_forward_alone(norm) else None
    is_observed = has_global_hook() or has_transforms() or are_overridden(input, residual, weight)
    if weight is None or is_observed or not are_alike(input, residual, weight):
        total = residual + input
        return norm(total), total
    return add_rms_norm(input, residual, weight, eps_of(norm))


@functools.cache
def replacing(cls: type[nn.Module]) -> type[NTDecoderLayer]:
    """Make the NTDecoderLayer that is a `cls` too: by their class transformers finds the layers of a model."""
    parameters = list(inspect.signature(cls.forward).parameters.values())[2:]
    passed = frozenset(each.name for each in parameters if each.kind is not each.VAR_KEYWORD)
    attributes = {"__module__": __name__, "replaced": cls, "passed": passed}
    return type("NTDecoderLayer", (NTDecoderLayer, cls), attributes)


def _make(cls: type[nn.Module]) -> NTDecoderLayer:
    # A class is hashable, whatever mypy thinks of `nn.Module.__hash__`.
    return object.__new__(replacing(cls))  # type: ignore[arg-type]


def link_all(model: nn.Module) -> None:
    """Let each layer of a model know the norms behind its sums: its own, and that of the next layer or of the model.

    A norm that is none of them in the end is added for in vain, and gives what it always gave.
    """
    for parent in model.modules():
        for layers in parent.children():
            norm, caller = getattr(parent, "norm", None), None
            for layer in reversed(layers) if isinstance(layers, nn.ModuleList) else ():
                if isinstance(layer, NTDecoderLayer):
                    _link(layer, norm, caller)
                norm, caller = getattr(layer, "input_layernorm", None), layer


def _link(layer: NTDecoderLayer, norm: nn.Module | None, caller: nn.Module | None) -> None:
    """Let a layer know the norm behind its own, and the norm that comes next, which the `caller` calls, if any."""
    if type(layer.post_attention_layernorm) is NTRMSNorm:
        ahead_of(layer.post_attention_layernorm)
    if type(norm) is NTRMSNorm:
        vars(layer)[NEXT] = ahead_of(norm, caller)

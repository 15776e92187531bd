"""Attention of transformers' Llama, Mistral and Qwen models on NineToothed's rope and sdpa."""

import functools
import inspect
import sys
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional

from ninetoothed.errors import UnsupportedError

from ..autocast import autocast, without_autocast
from ..ops.sdpa import operator as sdpa
from . import packed
from .caches import kept, projected_into, rotated_into
from .joint import JointModule, project
from .overrides import are_overridden
from .rotary import Rotary, RotaryFunction
from .rotary_trial import recognised
from .substitute import Substitute, is_outdated, own_forward

# The implementations of `config._attn_implementation` whose masks `NTAttention` reads. A model makes its masks for the
# implementation that its config names, and configs are shared between models: so `NTAttention` takes the masks as they
# are, and changes no config and no registry. The last is registered where it was asked for.
THEIRS = ("sdpa", "eager")
IMPLEMENTATIONS = (*THEIRS, "ninetoothed")
# Continuous batching tells where its pages are by name. While it runs, versions of transformers set one of these, by
# `PAGED` and what was set before, or leave "sdpa".
PAGED = "paged|"
SERVED = "paged|sdpa"
# The functions that the forwards replaced call by name, in the model's own file, and what holds those registered.
ROTARY = "apply_rotary_pos_emb"
OTHERS = ("eager_attention_forward", "repeat_kv")
CALLED = (ROTARY, "rotate_half", *OTHERS)
REGISTRY = "ALL_ATTENTION_FUNCTIONS"
# Context parallelism puts a function in its place, which asks other processes for keys: it is seen by comparing. None
# where that was there before this file was: PyTorch's own is built in.
ATTENTION: Any = functional.scaled_dot_product_attention
ATTENTION = ATTENTION if isinstance(ATTENTION, BuiltinFunctionType) else None
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")


class NTAttention(Substitute, JointModule):
    """An attention module with `q_proj`, `k_proj`, `v_proj` and `o_proj`, on `ninetoothed.rope` and `ninetoothed.sdpa`.

    `swap_modules` puts it in the place of an attention module of transformers, of which it keeps projections, `q_norm`
    and `k_norm` where there are, scale and layer index:

        q, k, v = rope(q_norm(q_proj(x))), rope(k_norm(k_proj(x))), v_proj(x)
        output = o_proj(softmax(q k^T * scaling + mask) v)

    `forward(hidden_states, position_embeddings, attention_mask, past_key_values)`: `(B, S, hidden)`; a cosine and a
    sine table, `(1 or B, S, D)`; None or a mask that broadcasts to `(B, heads, S, keys)`; None or a cache, which has
    the name that the forward replaced has for it: `cache` since transformers 5.24. It gives
    `(B, S, hidden)`, and None for the attention weights, which it never holds. Causality and sliding windows come as
    the model says them: in the mask or, where it makes none because plain causality is meant, in `is_causal`.

    Where a `TorchFunctionMode` is active, or another library has since registered an attention function of its own or
    replaced one that the module's file calls, the module's own forward runs. So it does where PyTorch's attention has
    been replaced, as `torch.distributed.tensor.experimental.context_parallel` does.

    Continuous batching (`generate_batch`) with "sdpa" reads its pages by `ninetoothed.sdpa`; with other attention the
    module's own forward runs, on the projections that it has.

    A mask means what it means to the model's `config._attn_implementation`. To "sdpa" and "ninetoothed" a boolean one
    says which keys a query sees, and one of numbers is added to the scores. "eager" adds every mask, so that a boolean
    one, which a caller must have made, adds 0 or 1 and hides nothing, as it does in transformers; and a row of which
    every score is -inf is NaN, where to the others it is 0.

    A step of one token over a static cache that counts for itself, as those of transformers 5 do, reads the keys that
    the cache holds and none of the rest, which the model's mask hides; and it rotates query and key and writes to the
    cache in one launch, as it does for the first tokens of a dynamic cache, and over any that tells where to write
    (caches.py).
    """

    siblings = ("q_proj", "k_proj", "v_proj")
    # Of the class that is made for a class replaced.
    written: ClassVar[FunctionType]
    called: ClassVar[tuple[tuple[str, Any], ...]]
    registered: ClassVar[Mapping[str, Any]]
    rotary: ClassVar[Rotary]
    # Of the instance, which was one of the class replaced.
    config: Any
    head_dim: int
    layer_idx: int
    q_proj: nn.Module
    k_proj: nn.Module
    v_proj: nn.Module
    o_proj: nn.Module
    q_norm: nn.Module
    k_norm: nn.Module

    @classmethod
    def facts(cls, replaced: type[nn.Module]) -> dict[str, Any]:
        written: Any = inspect.unwrap(replaced.forward)
        names = written.__globals__
        found = recognised(names, ROTARY)
        return {
            # What its forward finds by name, in its own file and among what is registered.
            "written": written,
            "rotary": found.rotary if isinstance(found, RotaryFunction) else Rotary(),
            "called": tuple((name, names.get(name)) for name in CALLED),
            "registered": {name: names[REGISTRY].get(name) for name in THEIRS if REGISTRY in names},
        }

    def forward(
        self,
        hidden_states: torch.Tensor,
        position_embeddings: tuple[torch.Tensor, torch.Tensor] | None = None,
        attention_mask: torch.Tensor | None = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, None]:
        cls = type(self)
        # A config looks each attribute up by functions in Python.
        implementation = self.config._attn_implementation
        if is_outdated(self) or are_overridden(hidden_states) or _calls_others(cls, implementation, kwargs):
            arguments = hidden_states, position_embeddings, attention_mask
            # A wrapper of transformers gives what has the cache's old name by the new one.
            held = () if past_key_values is None else (past_key_values,)
            return own_forward(self)(self, *arguments, *held, **kwargs)
        _check(self, implementation, kwargs)
        shape = (*hidden_states.shape[:-1], -1, self.head_dim)

        # Pages of continuous batching came beside the cache until transformers 5.23, and since then as the cache.
        is_paged = "read_index" in kwargs
        # The default is the original's; models pass tables.
        cos, sin = position_embeddings  # type: ignore[misc]
        cache = None if is_paged else past_key_values
        layer, is_normed = self.layer_idx, "q_norm" in self._modules
        written = None if is_normed else projected_into(self, cache, layer, hidden_states, cos, sin, cls.rotary)
        if written is None:
            query, key, value = (states.view(shape) for states in project(self, hidden_states, NTAttention.siblings))
            if is_normed:
                query, key = self.q_norm(query), self.k_norm(key)
            written = rotated_into(cache, layer, query, key, value, cos, sin, cls.rotary)
        if written is not None:
            query, key, value = written
        else:
            query, key = (states.transpose(1, 2) for states in cls.rotary(cos, sin, query, key))
            value = value.transpose(1, 2)
            if is_paged:
                key, value = _paged(kwargs.get("cache", past_key_values), kwargs, layer, key, value)
            elif cache is not None:
                key, value = cache.update(key, value, layer)

        is_eager = implementation == "eager"
        asked = False if is_paged else kwargs.get("is_causal")
        is_causal = not is_eager and _is_causal(self, query.shape[2], attention_mask, asked)
        lengths = _held(cache, layer) if query.shape[2] == 1 and attention_mask is not None else None
        if cache is not None:
            key, value, lengths = kept(query, key, value, lengths, is_causal)
        sequences = None if is_paged else packed.find(query, key, attention_mask, is_causal, kwargs)
        if sequences is None:
            output = _attend(self, query, key, value, attention_mask, is_causal, lengths, is_eager)
        else:
            output = _attend_within(self, query, key, value, attention_mask, is_causal, is_eager, sequences)
        return self.o_proj(output.transpose(1, 2).reshape(*hidden_states.shape[:-1], -1)), None


def _paged(
    pages: Any, kwargs: dict[str, Any], layer: int, key: torch.Tensor, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Write keys and values to the pages of continuous batching, and read all that the mask speaks of."""
    update, given = pages.update, {"key_states": key, "value_states": value, "layer_idx": layer}
    if _takes_all(type(pages)):  # type: ignore[arg-type]  # a class is hashable
        return update(**given, kwargs=dict(kwargs))
    # (tokens, heads, D)
    held = update(**given, read_index=kwargs["read_index"], write_index=kwargs["write_index"])
    key, value = (each.transpose(0, 1).unsqueeze(0) for each in held)
    return key, value


@functools.cache
def _takes_all(cls: type) -> bool:
    """Tell whether a cache of pages finds its indices itself, and gives (1, heads, tokens, D): transformers 5.23's."""
    return "kwargs" in inspect.signature(cls.update).parameters  # type: ignore[attr-defined]


def _calls_others(cls: type[NTAttention], implementation: str, kwargs: dict[str, Any]) -> bool:
    """Tell whether others compute: functions that replaced those that the forward calls, or pages not read here.

    So does the forward's own wrapper, which knows the name that a cache had before transformers 5.24.
    """
    if "past_key_values" in kwargs:
        return True
    if implementation not in IMPLEMENTATIONS and PAGED in str(implementation):
        return implementation != SERVED or "read_index" not in kwargs
    if implementation != "eager" and functional.scaled_dot_product_attention is not ATTENTION:
        return True
    names = cls.written.__globals__
    for name, function in cls.called:
        if names.get(name) is not function:
            return True
    is_known = implementation in cls.registered
    return is_known and names[REGISTRY].get(implementation) is not cls.registered[implementation]


def _is_causal(module: Any, length: int, mask: torch.Tensor | None, asked: bool | None) -> bool:
    """Tell whether the lack of a mask means causality.

    To "sdpa" it does, except for a single token, which sees all that is in the cache. "eager" makes a mask for
    that; its lack means that every token sees every other.
    """
    if mask is not None or length == 1:
        return False
    return bool(getattr(module, "is_causal", True) if asked is None else asked)


def _held(cache: Any, layer: int) -> torch.Tensor | None:
    """Find the tensor in which a static cache counts the keys that it holds; None for any other cache.

    A cache of a sliding window moves its keys: their count says nothing of their places.
    """
    layers = getattr(cache, "layers", ())
    held = getattr(layers[layer], "cumulative_length", None) if layer < len(layers) else None
    return held if isinstance(held, torch.Tensor) and not getattr(layers[layer], "is_sliding", True) else None


def _attend_within(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    is_eager: bool,
    sequences: packed.Packed,
) -> torch.Tensor:
    """Compute attention within each of packed sequences."""
    if sequences.is_all and not (module.training and module.attention_dropout):
        return sequences.attend(query, key, value, is_causal or mask is not None, module.scaling)
    mask = sequences.apart(mask, query.shape[2], is_causal)
    return _attend(module, query, key, value, mask, False, None, is_eager and mask.dtype is not torch.bool)


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    lengths: torch.Tensor | None,
    is_eager: bool,
) -> torch.Tensor:
    """Compute softmax(query key^T * scaling + mask) value, all `(B, heads, length, D)`, of `lengths` keys."""
    dropout = module.attention_dropout if module.training else 0.0
    options = {"scale": module.scaling, "enable_gqa": module.num_key_value_groups > 1}
    if not is_eager:
        return sdpa(query, key, value, mask, dropout, is_causal, lengths, **options)
    options["safe"] = False
    if mask is None:
        return sdpa(query, key, value, mask, dropout, is_causal, lengths, **options)
    # Only PyTorch's attention has its mask cast: in a half, what hides a key would be infinite.
    query, key, value = autocast(query, key, value)
    with without_autocast(query.device.type):
        return sdpa(query, key, value, _addend(mask, query.dtype), dropout, is_causal, lengths, **options)


def _check(module: Any, implementation: str, kwargs: dict[str, Any]) -> None:
    """Raise UnsupportedError for what the model may have been set to since the swap."""
    if implementation not in (*IMPLEMENTATIONS, SERVED):
        raise UnsupportedError(
            f"NTAttention (layer {module.layer_idx}): it reads the masks of the attention implementations "
            f"{', '.join(IMPLEMENTATIONS)}, and the model's is {implementation!r} now. Set it back with "
            "model.set_attn_implementation('sdpa'), or take the swap back with report.undo()."
        )
    if implementation != "eager" and kwargs.get("position_bias") is not None:
        raise UnsupportedError(
            f"NTAttention (layer {module.layer_idx}): it adds no position_bias to its scores. Leave that out, or "
            "take the swap back with report.undo()."
        )
    if are_weights_asked_for(module, kwargs):
        raise UnsupportedError(
            f"NTAttention (layer {module.layer_idx}): output_attentions=True asks for attention weights, which it "
            "never holds. Leave that out, or take the swap back with report.undo() and keep the model's attention: "
            "swap_modules(model, lambda module, name: not hasattr(module, 'q_proj'))."
        )


def are_weights_asked_for(module: Any, kwargs: dict[str, Any]) -> bool:
    """Tell whether a model is to give attention weights, of which some do not tell their attention.

    Transformers collects them. Compiled code cannot ask that: there they come out empty, as with "sdpa", where neither
    the model nor its config tells.
    """
    asked = kwargs.get("output_attentions")
    if asked:
        return True
    if torch.compiler.is_compiling():
        return asked is None and bool(getattr(getattr(module, "config", None), "output_attentions", False))
    # Early versions collect nothing: models of theirs tell their attention.
    collector = getattr(sys.modules.get("transformers.utils.output_capturing"), "_active_collector", None)
    return collector is not None and any(name.endswith("attentions") for name in collector.get() or ())


def _addend(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Convert a mask of any type, truth values and integers too, to numbers that `sdpa` adds to scores of `dtype`."""
    return mask if mask.dtype in (dtype, torch.float32) else mask.to(torch.promote_types(dtype, torch.float32))


def projects(module: nn.Module) -> bool:
    """Tell whether a module has the four projections of an attention."""
    return all(isinstance(getattr(module, name, None), nn.Module) for name in PROJECTIONS)


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """Give a reason to leave alone whatever looks like attention: only integrations know what can be replaced."""
    if projects(module):
        return "an attention module of no known kind"
    # The parts of attention in parts tell.
    in_parts = any("Attention" in type(each).__name__ for each in module.children())
    if type(module).__name__.endswith("Attention") and not in_parts:
        return f"it has no {', '.join(PROJECTIONS)}"
    return None

"""transformers' `attn_implementation="ninetoothed"`: the attention of every family that asks for it by name.

transformers looks an attention function up by its name, and what makes the masks for it by the same name; with no mask
function there would be no masks, and no causality. Both are registered here, when asked for and not before:

    register_attention()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="ninetoothed")
"""

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, eager_mask, sdpa_mask

from ninetoothed.errors import UnsupportedError
from ninetoothed.runtime.private import version_of

from ..modules import packed
from ..modules.attention import ATTENTION, are_weights_asked_for
from ..modules.caches import kept
from ..ops.sdpa import operator as sdpa
from . import names
from .masks import own_parameters, reads_numbers
from .sparse import chosen

NAME = "ninetoothed"
# The attribute by which a mask asks for its keys to be counted, and which then holds the layer that asked last, the
# version of the mask, and how many keys each batch entry has at most.
LENGTHS = "ninetoothed_lengths"


def register_attention() -> None:
    """Register `attn_implementation="ninetoothed"` with transformers, for all models of this process.

    Nothing changes for a model of another implementation. Masks are made as for "sdpa": boolean, and none where plain
    causality is meant; for families that are not made for it (masks.py) as for "eager". Models that exist are set by
    `model.set_attn_implementation("ninetoothed")`.
    """
    names.check("register_attention")
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, make_mask)


def make_mask(*args: Any, **kwargs: Any) -> torch.Tensor | None:
    """Make the mask that transformers makes for "sdpa"; over a static cache it asks for its keys to be counted.

    A static cache has more keys than it holds, and attention reads all of them unless it is told how many count. A mask
    of one's own, or one that a model makes of this one, asks for nothing: then all are read.

    Some families are not made for "sdpa": they have attention that adds its mask, or makes another of it, or whose
    modules do not say whether they are causal. Their masks are made as for "eager", and say all.
    """
    if reads_numbers(type(kwargs.get("config"))):
        return eager_mask(*args, **kwargs)
    mask = sdpa_mask(*args, **kwargs)
    # Tensors of inference have no versions.
    if mask is not None and (torch.compiler.is_compiling() or not mask.is_inference()):
        if _may_end_early(mask.shape[-1], **kwargs):
            setattr(mask, LENGTHS, None)
    return mask


def _may_end_early(keys: int, q_length: int = 0, q_offset: Any = None, kv_offset: int = 0, **_: Any) -> bool:
    """Tell whether a mask may have more keys than its last query sees; a static cache counts on the device."""
    return not isinstance(q_offset, int) or q_offset + q_length - kv_offset < keys


def _counted(module: nn.Module, mask: torch.Tensor | None) -> torch.Tensor | None:
    """Count the keys that are visible in a mask that asks for it, once in each forward; None if it does not ask.

    The first layer counts, for those behind it: a layer that is not behind the last one is in another forward. Nothing
    is kept of a mask that was written to.
    """
    if mask is None or not hasattr(mask, LENGTHS):
        return None
    place = getattr(module, "layer_idx", None)
    if torch.compiler.is_compiling() or place is None:
        # All layers count the same, which a compiler sees, unless something was written to the mask between them.
        return _visible(mask)
    version = version_of(mask)
    last, seen, lengths = getattr(mask, LENGTHS) or (place, None, None)
    if lengths is None or last >= place or version is None or version != seen:
        lengths = _visible(mask)
    setattr(mask, LENGTHS, (place, version, lengths))
    return lengths


def _visible(mask: torch.Tensor) -> torch.Tensor:
    """Count each batch entry's keys up to the last that any query sees; `mask`: (batch, heads, queries, keys)."""
    seen = mask.any(dim=(1, 2))
    places = torch.arange(1, seen.shape[-1] + 1, dtype=torch.int32, device=mask.device)
    return (seen * places).amax(-1)


def attend(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: torch.Tensor | None = None,
    s_aux: torch.Tensor | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Compute softmax(query key^T * scaling + mask + position_bias) value, as transformers' function for "sdpa" does.

    query: (batch, heads, length, D), and as many heads of keys and values or fewer, which divide them. `s_aux`:
    (heads,), attention sinks. `softcap`: scores become softcap * tanh(scores / softcap) before the mask. The result is
    (batch, length, heads, D), and None for the attention weights.
    """
    _check(module, kwargs)
    length, lengths = query.shape[2], _counted(module, attention_mask)
    attention_mask = chosen(module, query, key, attention_mask, kwargs)
    asked = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if reads_numbers(type(getattr(module, "config", None))):
        asked = False
    # A single token sees all that is in the cache. No mask means causality to all others, if it means anything.
    is_causal = length > 1 and attention_mask is None and bool(asked)
    key, value, _ = kept(query, key, value, is_causal=is_causal)
    if attention_mask is not None and attention_mask.shape[-1] > key.shape[2]:
        attention_mask = attention_mask[..., : key.shape[2]]  # Early versions of transformers have it longer.
    if position_bias is not None:
        bias = position_bias[..., : key.shape[2]]
        attention_mask, is_causal, lengths = _biased(bias, attention_mask, is_causal, query, key), False, None

    sequences = packed.find(query, key, attention_mask, is_causal, kwargs)
    if sequences is not None:
        if sequences.is_all and not dropout and softcap is None and s_aux is None:
            within = is_causal or attention_mask is not None
            return sequences.attend(query, key, value, within, scaling).transpose(1, 2).contiguous(), None
        attention_mask = sequences.apart(attention_mask, length, is_causal)
        is_causal, lengths = False, None

    options: dict[str, Any] = {"scale": scaling, "enable_gqa": query.shape[1] != key.shape[1]}
    if functional.scaled_dot_product_attention is ATTENTION:
        arguments = query, key, value, attention_mask, dropout, is_causal, lengths, s_aux
        output = sdpa(*arguments, **options, softcap=softcap)
    elif s_aux is softcap is None:
        output = functional.scaled_dot_product_attention(
            query, key, value, attention_mask, dropout, is_causal, **options
        )
    else:
        raise _replaced(module)
    return output.transpose(1, 2).contiguous(), None


def _biased(
    bias: torch.Tensor, mask: torch.Tensor | None, is_causal: bool, query: torch.Tensor, key: torch.Tensor
) -> torch.Tensor:
    """Add what hides keys to a bias of the scores, as the lowest number there is."""
    if is_causal:
        mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).tril()
    if mask is None:
        return bias
    return torch.where(mask, bias, torch.finfo(bias.dtype).min) if mask.dtype is torch.bool else bias + mask


def _replaced(module: nn.Module) -> UnsupportedError:
    return UnsupportedError(
        f'attn_implementation="{NAME}": {type(module).__name__} has attention sinks or a softcap, and PyTorch\'s '
        "scaled_dot_product_attention has been replaced, as by context_parallel, with a function that takes neither. "
        "Leave that out."
    )


def _check(module: nn.Module, kwargs: dict[str, Any]) -> None:
    """Raise UnsupportedError for what would change the result, or what there is none of.

    An argument changes the result if the "eager" function of the family names it.
    """
    refused = next((name for name in own_parameters(type(module)) if kwargs.get(name) is not None), None)
    if refused:
        raise UnsupportedError(
            f'attn_implementation="{NAME}": {type(module).__name__} passes {refused}, which its own attention computes '
            "with, and which there is no answer to. Set that back with model.set_attn_implementation('eager')."
        )
    if are_weights_asked_for(module, kwargs):
        raise UnsupportedError(
            f'attn_implementation="{NAME}": output_attentions=True asks {type(module).__name__} for attention weights, '
            "which are never held. Leave that out, or call model.set_attn_implementation('eager') first."
        )

"""Caches into which attention writes the keys and values of a token itself, in the launch that rotates them.

A cache offers that by a method `writable(layer, tokens)`: it gives the keys and values of a layer, (batch, heads,
length, D), and the slots of so many next tokens in them, (tokens,), on the device; or None for a call of `update`
instead. Of transformers' caches two are known here: the static one, for one token, and the dynamic one, for the first.
All others are written by their own `update`.
"""

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ninetoothed.runtime.private import version_of

from ..autocast import is_enabled
from ..ops.linear_rope_into_cache import operator as linear_rope_into_cache
from .joint import JointModule, joint_parameters
from .overrides import are_recorded
from .rotary import Rotary

MODULE = "transformers.cache_utils"


class Slots(NamedTuple):
    """The places of the next tokens, as `writable` tells them.

    counter: the tensor, if any, that counts those of a layer. empty: the layer, if any, that has no keys and values yet
    and is to hold these.
    """

    keys: torch.Tensor
    values: torch.Tensor
    slots: torch.Tensor
    counter: torch.Tensor | None = None
    empty: Any = None


def rotated_into(
    cache: Any,
    layer: int,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    rotary: Rotary,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
    """Rotate a query and write a rotated key and a value, all `(B, S, heads, D)`, to a cache, in one launch.

    Gives the rotated query and all that attention reads of the cache, `(B, heads, length, D)` each; None, and nothing
    is done, where only `update` knows where to write, or would refuse the key, or where a gradient is recorded.
    """
    is_known = rotary.interleaved_output is None and rotary.rotates != "last"
    if cache is None or not is_known or not _are_plain(query, key, value, cos, sin):
        return None
    found = _slots_of(cache, layer, key.shape[1], key)
    if found is None or not _fit(key, key.shape, found):
        return None
    rotary_dim, (cos, sin) = rotary.read(query, cos, sin)
    operator, options = torch.ops.ninetoothed.rope_into_cache, (rotary.interleaved, rotary_dim)
    rotated = operator(query, key, value, sin, cos, found.slots, found.keys, found.values, *options)
    if found.empty is not None:
        # Whatever else its first update does, it does now.
        found.empty.update(found.keys[:, :, :0], found.values[:, :, :0])
        found.empty.keys, found.empty.values = found.keys, found.values
    return _written(rotated, found)


def projected_into(
    module: JointModule,
    cache: Any,
    layer: int,
    input: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    rotary: Rotary,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
    """Do what `project` and `rotated_into` do for an attention, in one launch, where its projections are joined.

    None, and nothing is done, where a bias is added, or only some columns rotate, or for the first tokens of a cache.
    """
    width: int = module.head_dim  # type: ignore[assignment]
    is_whole = not rotary.interleaved and rotary.interleaved_output is None and rotary.width(cos) == width
    if cache is None or not is_whole or is_enabled(input.device.type) or not _are_plain(input, cos, sin):
        return None
    joined = joint_parameters(module, input, [getattr(module, name) for name in module.siblings])
    if joined is None or joined[1] or are_recorded(*joined[0]):
        return None
    query, key, value = joined[0]
    (batch, tokens, _), heads = input.shape, key.shape[0] // width
    found = _slots_of(cache, layer, tokens) if query.dtype == input.dtype else None
    if found is None or not _fit(input, (batch, tokens, heads, width), found):
        return None
    _, (cos, sin) = rotary.read(found.keys, cos, sin)
    states = linear_rope_into_cache(input, query, key, value, sin, cos, found.slots, found.keys, found.values)
    return _written(states[:, :, : query.shape[0] // width], found)


def _written(query: torch.Tensor, found: Slots) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Count the tokens of a query, and give it with all that attention reads of the cache."""
    if found.counter is not None:
        found.counter.add_(query.shape[1])
    return query.transpose(1, 2), found.keys, found.values


def kept(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    lengths: torch.Tensor | None = None,
    is_causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Copy what a cache has written in place, and may again, before attention saves it for a gradient.

    Causal attention has more keys than queries only in a static cache before its first use: it gets none of the rest,
    which is unwritten.

    Compiled code knows no versions, and Inductor sees through copies: there the heads of a cache with room for more
    keys than these queries bring are repeated, as PyTorch's attention repeats them.
    """
    length = query.shape[2]
    has_room = key.shape[2] > length
    if is_causal and has_room:
        key, value = key[:, :, :length], value[:, :, :length]
    if not are_recorded(query, key, value):
        return key, value, lengths
    if not torch.compiler.is_compiling():
        key, value = (each if version_of(each) == 0 else each.clone() for each in (key, value))
        return key, value, None if lengths is None else lengths.clone()
    if key.shape[1] < query.shape[1] and has_room:
        key, value = (each.repeat_interleave(query.shape[1] // each.shape[1], 1) for each in (key, value))
    return key, value, None if lengths is None else lengths.to(torch.int32)


def _are_plain(first: torch.Tensor, *others: torch.Tensor) -> bool:
    """Tell whether tensors are plain ones of one type, and not recorded for a gradient."""
    tensors = (first, *others)
    are_alike = all(type(each) is torch.Tensor and each.dtype == first.dtype for each in tensors)
    return are_alike and not (torch.jit.is_tracing() or are_recorded(*tensors))


def _fit(like: torch.Tensor, shape: Sequence[int], found: Slots) -> bool:
    """Tell whether keys `(B, S, heads, D)` of the type of `like` may be written to a cache."""
    batch, _, heads, width = shape
    return found.slots.device == like.device and all(
        type(each) is torch.Tensor
        and (each.shape[:2], each.shape[3:]) == ((batch, heads), (width,))
        and (each.dtype, each.device) == (like.dtype, like.device)
        for each in (found.keys, found.values)
    )


def _slots_of(cache: Any, layer: int, tokens: int, key: torch.Tensor | None = None) -> Slots | None:
    writable = getattr(cache, "writable", None)
    if writable is None:
        return _of_layer(cache, layer, tokens, key)
    found = writable(layer, tokens)
    return None if found is None else Slots(*found)


def _of_layer(cache: Any, layer: int, tokens: int, key: torch.Tensor | None) -> Slots | None:
    """Find the slots in a layer of transformers 5.

    A static layer counts on the device what it holds, which is the slot of one token more. A dynamic one that is empty
    is given, for a `key`, `(B, S, heads, D)`, what its `update` would give it: the first keys and values, and no more
    memory.
    """
    layers = getattr(cache, "layers", ())
    found: Any = layers[layer] if layer < len(layers) else None
    module: Any = sys.modules.get(MODULE)
    # The class first: see `joint._are_plain`.
    if tokens == 1 and getattr(module, "StaticLayer", None) is type(found):
        return _of_static_layer(found) if are_own(module, cache, module.StaticLayer, found) else None
    if key is not None and getattr(module, "DynamicLayer", None) is type(found) and not _is_initialized(found, True):
        return _of_empty_layer(found, key) if are_own(module, cache, module.DynamicLayer, found) else None
    return None


def _of_static_layer(layer: Any) -> Slots | None:
    counter = getattr(layer, "cumulative_length", None)
    if not _is_initialized(layer, False) or not isinstance(counter, torch.Tensor):
        return None
    return Slots(layer.keys, layer.values, counter.view(1), counter)


def _of_empty_layer(layer: Any, key: torch.Tensor) -> Slots:
    batch, tokens, heads, width = key.shape
    keys, values = (key.new_empty(batch, heads, tokens, width) for _ in range(2))
    return Slots(keys, values, torch.arange(tokens, device=key.device), empty=layer)


def are_own(module: Any, cache: Any, cls: Any, layer: Any) -> bool:
    """Tell whether a cache, on the device, and its layer are updated by transformers' own methods alone."""
    is_own = _updates_itself(cache, module.Cache) and _updates_itself(layer, cls)
    return is_own and not getattr(cache, "offloading", True)


def _is_initialized(layer: Any, unknown: bool) -> bool:
    """Tell whether a layer has memory; `unknown` where this transformers does not say."""
    return getattr(layer, "is_initialized", unknown)


def _updates_itself(instance: Any, base: Any) -> bool:
    """Tell whether an instance is updated by the method that transformers' file gives to a class, unpatched."""
    function = getattr(type(instance), "update", None)
    is_own = function is base.update and function.__globals__ is vars(sys.modules[MODULE])
    return is_own and "update" not in vars(instance)

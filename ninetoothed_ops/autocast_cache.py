"""Weights that `torch.autocast` has cast: once a region, as for PyTorch's operators, and let go at its end.

PyTorch's own memory of casts cannot be reached from Python. But what it holds ends with the region, or with
`torch.clear_autocast_cache`: a tensor of no elements is given to it, and our casts go when that does.
"""

import weakref
from collections.abc import Callable
from typing import NamedTuple

import torch

from ninetoothed.runtime import private


class _Cast(NamedTuple):
    source: Callable[[], torch.Tensor | None]
    version: int | None
    result: torch.Tensor


class _Region(NamedTuple):
    """The cast that PyTorch holds, and ours, which go with it: by weight, type and grad mode."""

    held: weakref.ref
    casts: dict[tuple[int, torch.dtype, bool], _Cast]


# By device type: the tensor that PyTorch casts and holds, and the region in which it does. Regions of several threads
# are one, as PyTorch's are.
_GIVEN: dict[str, torch.Tensor] = {}
_REGIONS: dict[str, _Region] = {}


def cast_once(weight: torch.Tensor, device_type: str, dtype: torch.dtype) -> torch.Tensor:
    """Cast a tensor; a weight once in a region of `torch.autocast`, or again after it was written."""
    if not _is_remembered(weight, device_type, dtype):
        return weight.to(dtype)
    region = _REGIONS.get(device_type) or _begin(device_type)
    if region is None:
        return weight.to(dtype)
    key, version = (id(weight), dtype, torch.is_grad_enabled()), private.version_of(weight)
    known = None if version is None else region.casts.get(key)
    if known is not None and known.source() is weight and known.version == version:
        return known.result
    result = weight.to(dtype)
    # If another thread has ended the region meanwhile, nobody finds it there.
    region.casts[key] = _Cast(weakref.ref(weight), version, result)

    return result


def _is_remembered(weight: torch.Tensor, device_type: str, dtype: torch.dtype) -> bool:
    """Tell whether PyTorch would remember the cast: that of a parameter, to the type of the region."""
    if type(weight) not in (torch.Tensor, torch.nn.Parameter) or not (weight.requires_grad and weight.is_leaf):
        return False
    if weight.dtype is not torch.float32 or dtype is torch.float32 or not torch.is_autocast_cache_enabled():
        return False
    if torch.is_inference_mode_enabled() or torch.compiler.is_compiling() or private.has_transforms():
        return False
    is_watched = private.count_dispatch_modes() or private.function_modes()
    return not is_watched and dtype is torch.get_autocast_dtype(device_type)


def _begin(device_type: str) -> _Region | None:
    """Let PyTorch cast a tensor of no elements, and forget our casts once it forgets that; None if it does not."""
    if device_type not in _GIVEN:
        _GIVEN[device_type] = torch.empty(0, 0, device=device_type, requires_grad=True)
    given, saved = _GIVEN[device_type], list[torch.Tensor]()

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tensor)
        return tensor

    # A product saves what it has multiplied: the cast itself.
    try:
        hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
        with torch.enable_grad(), hooks:
            torch.mm(given, given)
    except RuntimeError:  # The user has disabled such hooks.
        return None
    if not saved or saved[0] is given or saved[0].dtype is given.dtype:
        return None
    held = weakref.ref(saved[0], lambda _: _REGIONS.pop(device_type, None))
    region = _REGIONS[device_type] = _Region(held, {})
    return region

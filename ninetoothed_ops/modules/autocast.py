"""What `torch.autocast` would cast, where a module has operands of which it must leave one alone."""

import contextlib

import torch


def autocast(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors in the type in which PyTorch's products would take them.

    Inside `torch.autocast` that is the type it names, for every floating-point tensor but float64; outside, their own.
    """
    kind = tensors[0].device.type
    if not _has_autocast(kind) or not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return tuple(tensor.to(dtype) if _casts(tensor) else tensor for tensor in tensors)


def without_autocast(kind: str) -> contextlib.AbstractContextManager:
    """Operators take their operands on devices of this kind as they are."""
    return torch.autocast(kind, enabled=False) if _has_autocast(kind) else contextlib.nullcontext()


def _has_autocast(kind: str) -> bool:
    # PyTorch 2.11 cannot compile `torch.amp.is_autocast_available`, so the one device that has no autocast is named.
    return kind != "meta"


def _casts(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dtype != torch.float64

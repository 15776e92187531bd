"""`torch.autocast`, which casts what PyTorch's own operators take, for operators that are not PyTorch's."""

import contextlib
from collections.abc import Callable
from typing import Any

import torch


def cast_first(operator: torch._ops.OpOverload, kind: str, autocast: Callable[[str], torch.dtype | None]) -> Callable:
    """A kernel for autocast on one kind of device; PyTorch asks it inside `torch.autocast` alone."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{kind.upper()}"))

    def kernel(*args, **kwargs):
        dtype = autocast(kind)
        if dtype is not None:
            args = [cast(value, kind, dtype) for value in args]
            kwargs = {name: cast(value, kind, dtype) for name, value in kwargs.items()}
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return operator(*args, **kwargs)

    return kernel


def cast(value: Any, kind: str, dtype: torch.dtype) -> Any:
    """A tensor on this kind of device, or each of a list, in the type if it is of floating point and not of float64."""
    if isinstance(value, list | tuple):
        return [cast(item, kind, dtype) for item in value]
    is_cast = isinstance(value, torch.Tensor) and value.device.type == kind and value.is_floating_point()

    return value.to(dtype) if is_cast and value.dtype != torch.float64 else value


def autocast(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """The tensors, all on one device, in the type in which PyTorch's products would take them here."""
    kind = tensors[0].device.type
    if not _has_autocast(kind) or not torch.is_autocast_enabled(kind):
        return list(tensors)

    return cast(tensors, kind, torch.get_autocast_dtype(kind))


def without_autocast(kind: str) -> contextlib.AbstractContextManager:
    """Operators take their operands on devices of this kind as they are."""
    return torch.autocast(kind, enabled=False) if _has_autocast(kind) else contextlib.nullcontext()


def _has_autocast(kind: str) -> bool:
    # PyTorch 2.11 cannot compile `torch.amp.is_autocast_available`, so the one device that has no autocast is named.
    return kind != "meta"

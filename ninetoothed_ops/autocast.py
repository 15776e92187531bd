"""`torch.autocast`, which casts what PyTorch's own operators take, for operators that are not PyTorch's."""

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from ninetoothed.runtime import private
from ninetoothed.runtime.private import OpOverload

from .autocast_cache import cast_once


def cast_first(operator: OpOverload, device_type: str, autocast: Callable[[str], torch.dtype | None]) -> Callable:
    """Make the kernel for autocast on devices of one type; PyTorch asks it inside `torch.autocast` alone."""
    below_autocast = private.without_autocast(device_type)

    @private.hidden_from_dynamo
    def kernel(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _cast_all(args, kwargs, device_type, autocast(device_type))
        with below_autocast():
            return operator(*args, **kwargs)

    return kernel


def cast_where_enabled(function: Callable, autocast: Callable[[str], torch.dtype | None] | None) -> Callable:
    """Make the function that casts its arguments where `torch.autocast` would, for a kernel that comes before it."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        for device_type in ("cpu", "cuda"):
            if autocast and torch.is_autocast_enabled(device_type):
                args, kwargs = _cast_all(args, kwargs, device_type, autocast(device_type))
        return function(*args, **kwargs)

    return kernel


def uncast(function: Callable) -> Callable:
    """Make the function whose tensors `torch.autocast` does not cast, as it does not those of kernels."""

    @private.hidden_from_dynamo
    def call(first: torch.Tensor, *args: Any) -> Any:
        with without_autocast(first.device.type):
            return function(first, *args)

    return call


def _cast_all(args: tuple, kwargs: dict, device_type: str, dtype: torch.dtype | None) -> tuple[tuple, dict]:
    if dtype is None:
        return args, kwargs
    positional = tuple(cast(value, device_type, dtype) for value in args)

    return positional, {name: cast(value, device_type, dtype) for name, value in kwargs.items()}


def cast(value: Any, device_type: str, dtype: torch.dtype) -> Any:
    """Cast a tensor on a device of this type, or each of a list, if it is of floating point and not of float64."""
    if isinstance(value, list | tuple):
        return [cast(item, device_type, dtype) for item in value]
    is_cast = isinstance(value, torch.Tensor) and value.device.type == device_type and value.is_floating_point()

    return cast_once(value, device_type, dtype) if is_cast and value.dtype != torch.float64 else value


def autocast(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Cast tensors, all on one device, to the type in which PyTorch's products would take them here."""
    device_type = tensors[0].device.type
    if not is_enabled(device_type):
        return list(tensors)

    dtype = torch.get_autocast_dtype(device_type)

    return [cast(tensor, device_type, dtype) for tensor in tensors]


def without_autocast(device_type: str) -> contextlib.AbstractContextManager:
    """Let operators take their operands on devices of this type as they are."""
    return torch.autocast(device_type, enabled=False) if _has_autocast(device_type) else contextlib.nullcontext()


def is_enabled(device_type: str) -> bool:
    """Tell whether `torch.autocast` is on for devices of this type; a type that has none is no error."""
    return _has_autocast(device_type) and torch.is_autocast_enabled(device_type)


def _has_autocast(device_type: str) -> bool:
    # PyTorch 2.11 cannot compile `torch.amp.is_autocast_available`, so the one device that has no autocast is named.
    return device_type != "meta"

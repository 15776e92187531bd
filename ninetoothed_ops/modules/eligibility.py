"""Eligibility: the reasons to leave a module alone that all replacements share, and to leave its weights in place."""

import sys
from collections import Counter
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from ..ops.dtensors import is_dtensor

# Of float64 the CPU alone computes products.
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def unsuitable(module: nn.Module, *parameters: str) -> str | None:
    """Give the reason why another class's forward may not take over the instance's; None if it may.

    `parameters` names the parameters that a forward reads (None is allowed for each): a plain one is a
    `torch.nn.Parameter` around a plain tensor, or a DTensor, registered under its own name.
    """
    if "forward" in vars(module):
        return "its forward was patched on this instance"
    if _patched(type(module)):
        return "the forward of its class was patched"
    if parametrize.is_parametrized(module):
        return f"parametrised: {', '.join(vars(module)['_modules']['parametrizations'])}"
    return next(filter(None, (_not_plain(module, name) for name in parameters)), None)


def in_place_of(
    module: nn.Module, cls: type[nn.Module], ours: type[nn.Module], *parameters: str
) -> type[nn.Module] | str | None:
    """Choose a class of ours for a plain module of PyTorch's; a reason for a subclass of it, None for anything else."""
    if type(module) is cls:
        return unsuitable(module, *parameters) or ours
    if isinstance(module, cls):
        return unsuitable(module) or f"a subclass of torch.nn.{cls.__name__}, which may compute something else"
    return None


def _patched(cls: type[nn.Module]) -> bool:
    """Tell whether a class of PyTorch's has a forward that PyTorch's file did not give it."""
    owner: Any = next(base for base in cls.__mro__ if "forward" in vars(base))
    own = owner.__module__.startswith("torch.")
    return own and getattr(owner.forward, "__globals__", None) is not vars(sys.modules[owner.__module__])


def _not_plain(module: nn.Module, name: str) -> str | None:
    if name not in module._parameters:
        return f"its {name} is recomputed before every call (pruning, weight or spectral norm)"
    parameter = module._parameters[name]
    if parameter is None:
        return None
    if is_dtensor(parameter):  # Operators take some; of others PyTorch's functions compute (overrides.py).
        return unsupported(parameter, name)
    if type(parameter) is not nn.Parameter or type(parameter.data) is not torch.Tensor:
        held = type(parameter.data) if type(parameter) is nn.Parameter else type(parameter)
        return f"its {name} is a {held.__name__}, not a plain tensor"
    return unsupported(parameter, name)


def unsupported(parameter: torch.Tensor, name: str) -> str | None:
    """Give the reason why the operators cannot compute with a parameter; None if they can."""
    if parameter.layout is not torch.strided:
        return f"its {name} is sparse or of another layout, {parameter.layout}"
    if parameter.dtype in DTYPES or (parameter.dtype == torch.float64 and parameter.device.type in ("cpu", "meta")):
        return None
    return f"its {name} is {parameter.dtype} on {parameter.device.type}, which the operators do not compute"


def users_of_memory(model: nn.Module) -> Counter[int]:
    """Count the tensors of a model that use the storage at an address."""
    tensors = [each for each in (*model.parameters(), *model.buffers()) if type(each) in (torch.Tensor, nn.Parameter)]
    return Counter(each.untyped_storage().data_ptr() for each in tensors if each.layout == torch.strided)


def unmovable(parameter: torch.Tensor, users: Counter[int]) -> str:
    """Give the reason why a parameter has to stay in its memory; "" if it may move.

    Tensors outside the model cannot be known: those that share memory with a parameter keep the old one.
    """
    if type(parameter) is not nn.Parameter or type(parameter.data) is not torch.Tensor:
        return "is no plain tensor"
    if parameter.device.type == "meta" or not parameter.numel():
        return "has no memory"
    if parameter.is_inference():
        return "was made in inference mode"
    storage = parameter.untyped_storage()
    if storage.nbytes() != parameter.nbytes or not parameter.is_contiguous() or users[storage.data_ptr()] > 1:
        return "shares its memory with something else"
    if parameter.device.type == "cpu" and parameter.is_shared():
        return "is shared between processes"
    return ""

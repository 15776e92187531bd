"""Eligibility: the reasons to leave a module alone that all replacements share."""

import sys
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

# Of float64 the CPU alone computes products.
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def unsuitable(module: nn.Module, *parameters: str) -> str | None:
    """Give the reason why another class's forward may not take over the instance's; None if it may.

    `parameters` names the parameters that a forward reads (None is allowed for each): a plain one is a
    `torch.nn.Parameter` around a plain tensor, registered under its own name.
    """
    if "forward" in vars(module):
        return "its forward was patched on this instance"
    if _patched(type(module)):
        return "the forward of its class was patched"
    if parametrize.is_parametrized(module):
        return f"parametrised: {', '.join(vars(module)['_modules']['parametrizations'])}"
    return next(filter(None, (_not_plain(module, name) for name in parameters)), None)


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
    if type(parameter) is not nn.Parameter or type(parameter.data) is not torch.Tensor:
        held = type(parameter.data) if type(parameter) is nn.Parameter else type(parameter)
        return f"its {name} is a {held.__name__}, not a plain tensor"
    return unsupported(parameter, name)


def unsupported(parameter: torch.Tensor, name: str) -> str | None:
    """Give the reason why the operators cannot compute with a parameter; None if they can."""
    if parameter.dtype in DTYPES or (parameter.dtype == torch.float64 and parameter.device.type in ("cpu", "meta")):
        return None
    return f"its {name} is {parameter.dtype} on {parameter.device.type}, which the operators do not compute"

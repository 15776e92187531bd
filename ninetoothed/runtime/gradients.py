"""Warn of gradients that a call loses: autograd does not see what a kernel computes.

Nothing of it runs on a fast path. Its guards tell tensors that require gradients from others, so that the first call
with such tensors is looked up by its signature, and there it is noticed. Guards do not tell whether autograd is on:
where calls with the same tensors were made under `torch.no_grad()` before, more than once, nothing is said.
"""

from __future__ import annotations

import torch

from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import LostGradientWarning, warn_user
from ninetoothed.runtime import private
from ninetoothed.wording import listed


def warn_where_lost(definition: KernelDefinition, args: tuple) -> None:
    """Warn of arguments that require gradients, unless autograd is off or has recorded the operator that calls."""
    if not torch.is_grad_enabled() or not private.any_requires_grad(*args) or private.is_below_autograd():
        return
    names = [
        f"`{parameter.name}`"
        for parameter, value in zip(definition.parameters, args, strict=True)
        if parameter.touched and isinstance(value, torch.Tensor) and value.requires_grad
    ]
    if names:
        require = "requires" if len(names) == 1 else "require"
        warn_user(
            f"kernel `{definition.name}`: {listed(names)} {require} gradients, and autograd does not record what a"
            " kernel computes: no gradient passes through its result; register the kernel as an operator with a"
            " gradient (`ninetoothed_ops.register` with `backward`), or, if none is wanted, call it under"
            " `torch.no_grad()` or with `.detach()` of them",
            LostGradientWarning,
        )

"""`torch.nn.SiLU` on NineToothed's silu."""

import torch
from torch import nn
from torch.nn import functional

from ..ops.silu import in_place
from .eligibility import unsuitable
from .overrides import are_overridden


class NTSiLU(nn.SiLU):
    """A `torch.nn.SiLU` on `ninetoothed.silu`: `forward(input)` is `input * sigmoid(input)`, of any shape."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if are_overridden(input):
            return functional.silu(input, getattr(self, "inplace", False))
        # Activations of other libraries that are put on this class have no such option.
        return in_place(input) if getattr(self, "inplace", False) else torch.ops.ninetoothed.silu(input)

    def extra_repr(self) -> str:
        return "inplace=True" if getattr(self, "inplace", False) else ""


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """`NTSiLU` for a plain `torch.nn.SiLU`, a reason for what only looks like one, None for anything else."""
    if type(module) is nn.SiLU:
        return unsuitable(module) or NTSiLU
    if isinstance(module, nn.SiLU):
        return unsuitable(module) or "a subclass of torch.nn.SiLU, which may compute something else"
    return None

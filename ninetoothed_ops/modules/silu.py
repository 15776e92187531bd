"""`torch.nn.SiLU` on NineToothed's silu."""

import torch
from torch import nn
from torch.nn import functional

from ..ops.activation import operator_of_silu as silu, silu_in_place as in_place
from .eligibility import unsuitable
from .overrides import are_overridden

# A patch of the class after a swap is seen by comparing.
FORWARD = nn.SiLU.forward


class NTSiLU(nn.SiLU):
    """A `torch.nn.SiLU` on `ninetoothed.silu`: `forward(input)` is `input * sigmoid(input)`, of any shape."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        # Activations of other libraries that are put on this class have no such option, and what a module has not it
        # looks up by a function in Python.
        inplace = self.__dict__.get("inplace", False)
        if are_overridden(input) or nn.SiLU.forward is not FORWARD:
            return nn.SiLU.forward(self, input) if "inplace" in self.__dict__ else functional.silu(input)
        return in_place(input) if inplace else silu(input)

    def extra_repr(self) -> str:
        return "inplace=True" if getattr(self, "inplace", False) else ""


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """`NTSiLU` for a plain `torch.nn.SiLU`, a reason for what only looks like one, None for anything else."""
    if type(module) is nn.SiLU:
        return unsuitable(module) or NTSiLU
    if isinstance(module, nn.SiLU):
        return unsuitable(module) or "a subclass of torch.nn.SiLU, which may compute something else"
    return None

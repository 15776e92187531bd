"""`torch.nn.Linear` on NineToothed's linear."""

import torch
from torch import nn

from ..ops.linear import operator as linear
from .eligibility import unsuitable
from .overrides import are_overridden
from .quantisation import PassedBy

# A patch of the class after a swap is seen by comparing.
FORWARD = nn.Linear.forward


class NTLinear(PassedBy, nn.Linear):
    """A `torch.nn.Linear` on `ninetoothed.linear`.

    `forward(input)`: `(..., in_features)` -> `(..., out_features)`, `input @ weight.T + bias`. The weight is never
    copied. One that has become another class of tensor since the swap, as quantising makes it, is multiplied by
    PyTorch's function, and so is any under a `TorchFunctionMode`.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        # A module looks its parameters up by a function in Python: once each.
        weight, bias = self.weight, self.bias
        if torch.jit.is_scripting():
            return torch.ops.ninetoothed.linear(input, weight, bias)
        if are_overridden(input, weight, bias) or nn.Linear.forward is not FORWARD:
            return nn.Linear.forward(self, input)
        return linear(input, weight, bias)


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """`NTLinear` for a plain `torch.nn.Linear`, a reason for what only looks like one, None for anything else."""
    if type(module) is nn.Linear:
        return unsuitable(module, "weight", "bias") or NTLinear
    if isinstance(module, nn.Linear):
        return unsuitable(module) or "a subclass of torch.nn.Linear, which may compute something else"
    if type(module).__name__.startswith("Linear") or type(module).__name__.endswith("Linear"):
        return "not a torch.nn.Linear"
    return None

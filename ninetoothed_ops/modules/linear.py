"""`torch.nn.Linear` on NineToothed's products."""

import torch
from torch import nn

from .eligibility import unsuitable
from .overrides import are_overridden


class NTLinear(nn.Linear):
    """A `torch.nn.Linear` whose product is `ninetoothed.mm`, or `ninetoothed.addmm` where it has a bias.

    `forward(input)`: `(..., in_features)` -> `(..., out_features)`, `input @ weight.T + bias`. The weight is read
    through a transposed view: it is never copied. A weight that has become another class of tensor since the swap, as
    quantising makes it, is multiplied by PyTorch's function, and so is any under a `TorchFunctionMode`.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        # A module looks its parameters up by a function in Python: once each.
        weight, bias = self.weight, self.bias
        if not torch.jit.is_scripting():
            if are_overridden(input, weight, bias):
                return nn.Linear.forward(self, input)
        # Right for any number of dimensions, without a branch on it, which `torch.fx` cannot trace.
        rows = input.unsqueeze(0).flatten(0, -2)
        if bias is None:
            output = torch.ops.ninetoothed.mm(rows, weight.t())
        else:
            output = torch.ops.ninetoothed.addmm(bias, rows, weight.t())
        return output.view(input.shape[:-1] + weight.shape[:1])


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """`NTLinear` for a plain `torch.nn.Linear`, a reason for what only looks like one, None for anything else."""
    if type(module) is nn.Linear:
        return unsuitable(module, "weight", "bias") or NTLinear
    if isinstance(module, nn.Linear):
        return unsuitable(module) or "a subclass of torch.nn.Linear, which may compute something else"
    if type(module).__name__.startswith("Linear") or type(module).__name__.endswith("Linear"):
        return "not a torch.nn.Linear"
    return None

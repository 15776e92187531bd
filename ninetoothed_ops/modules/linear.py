"""`torch.nn.Linear` on NineToothed's linear, and GPT-2's `Conv1D` on its addmm."""

import torch
from torch import nn

from ..ops.addmm import operator as addmm
from ..ops.linear import operator as linear
from .eligibility import in_place_of
from .overrides import are_overridden, leaves_to_compiler
from .quantisation import PassedBy
from .substitute import Substitute, is_outdated, own_forward

# A patch of the class after a swap is seen by comparing.
FORWARD = nn.Linear.forward


class NTLinear(PassedBy, nn.Linear):
    """A `torch.nn.Linear` on `ninetoothed.linear`.

    `forward(input)`: `(..., in_features)` -> `(..., out_features)`, `input @ weight.T + bias`. The weight is never
    copied. One that has become another class of tensor since the swap, as quantising makes it, is multiplied by
    PyTorch's function, and so is any under a `TorchFunctionMode` and in compiled steps of training
    (`leaves_to_compiler`).
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        # A module looks its parameters up by a function in Python: once each.
        weight, bias = self.weight, self.bias
        if torch.jit.is_scripting():
            return torch.ops.ninetoothed.linear(input, weight, bias)
        is_theirs = are_overridden(input, weight, bias, takes_nested=True, takes_dtensors=True) or leaves_to_compiler(
            self, input, weight
        )
        if is_theirs or nn.Linear.forward is not FORWARD:
            return nn.Linear.forward(self, input)
        return linear(input, weight, bias)


class NTConv1D(Substitute):
    """A `Conv1D` of transformers, the linear layer of GPT-2, on `ninetoothed.addmm`.

    `forward(x)`: `(..., in)` -> `(..., out)`, `x @ weight + bias`. The weight is (in, out), and is read as it lies.
    """

    nf: int
    weight: torch.Tensor
    bias: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, bias = self.weight, self.bias
        if is_outdated(self) or are_overridden(x, weight, bias) or leaves_to_compiler(self, x, weight):
            return own_forward(self)(self, x)
        return addmm(bias, x.view(-1, x.size(-1)), weight).view(x.size()[:-1] + (self.nf,))

    def __repr__(self) -> str:
        # Conv1D's names itself.
        return f"NTConv1D(nf={self.nf}, nx={self.weight.shape[0]})"


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """`NTLinear` for a plain `torch.nn.Linear`, a reason for what only looks like one, None for anything else."""
    name = type(module).__name__
    looks_alike = name.startswith("Linear") or name.endswith("Linear")
    return in_place_of(module, nn.Linear, NTLinear, "weight", "bias") or (
        "not a torch.nn.Linear" if looks_alike else None
    )

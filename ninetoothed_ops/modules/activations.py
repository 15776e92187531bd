"""Activations of PyTorch and of transformers on NineToothed's activation, which applies a function in one launch."""

from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional

from ..ops.activation import FORMULAS, operator as activation, operator_of_silu as silu, silu_in_place
from ..ops.functions import FUNCTIONS
from .eligibility import in_place_of
from .overrides import are_overridden, leaves_to_compiler

# A patch of the class after a swap is seen by comparing.
FORWARD, FORWARD_OF_SILU = nn.GELU.forward, nn.SiLU.forward


class NTActivation(nn.Module):
    """An activation whose `forward(input)` is `function(input)`, element by element, on `ninetoothed.activation`.

    Where a `TorchFunctionMode` is active, it is the function in PyTorch's operations.
    """

    function: ClassVar[str]

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        function: Any = function_of(self)
        is_theirs = are_overridden(input, takes_nested=True, takes_dtensors=True) or leaves_to_compiler(self, input)
        return FUNCTIONS[function](input) if is_theirs else activation(input, function)


def function_of(activation: NTActivation) -> str | None:
    """Name the function that a call applies; None for one that NineToothed does not have."""
    # A GELU of PyTorch says so itself, and may say another since the swap.
    is_told = isinstance(activation, nn.GELU) and "approximate" in activation.__dict__
    return FORMULAS.get(activation.__dict__["approximate"]) if is_told else activation.function


class NTGELU(NTActivation, nn.GELU):
    """A `torch.nn.GELU`."""

    function = "gelu"

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        is_patched = nn.GELU.forward is not FORWARD and "approximate" in self.__dict__
        if is_patched or function_of(self) is None:
            return nn.GELU.forward(self, input)
        return NTActivation.forward(self, input)

    def extra_repr(self) -> str:
        return ""


class NTGELUTanh(NTGELU):
    """A `torch.nn.GELU(approximate="tanh")`, and transformers' activations of this formula."""

    function = "gelu_tanh"

    def __init__(self, approximate: str = "tanh"):
        super().__init__(approximate)


class NTQuickGELU(NTActivation):
    """The activation of CLIP and others: `input * sigmoid(1.702 * input)`."""

    function = "quick_gelu"


class NTReLUSquared(NTActivation):
    """The activation of Nemotron and others: the square of `relu(input)`."""

    function = "relu_squared"


class NTSiLU(nn.SiLU):
    """A `torch.nn.SiLU` on `ninetoothed.silu`: `forward(input)` is `input * sigmoid(input)`, of any shape."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        # Activations of other libraries that are put on this class have no such option, and what a module has not it
        # looks up by a function in Python.
        inplace = self.__dict__.get("inplace", False)
        is_theirs = are_overridden(input, takes_nested=not inplace, takes_dtensors=not inplace) or leaves_to_compiler(
            self, input
        )
        if is_theirs or nn.SiLU.forward is not FORWARD_OF_SILU:
            return nn.SiLU.forward(self, input) if "inplace" in self.__dict__ else functional.silu(input)
        return silu_in_place(input) if inplace else silu(input)

    def extra_repr(self) -> str:
        return "inplace=True" if getattr(self, "inplace", False) else ""


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """`NTSiLU` for a plain `torch.nn.SiLU`, a reason for a subclass of it, None for anything else."""
    return in_place_of(module, nn.SiLU, NTSiLU)


def replacement_in_mlp(module: nn.Module) -> type[nn.Module] | str | None:
    """`NTGELU` for a plain `torch.nn.GELU`, a reason for a subclass of it, None for anything else."""
    is_tanh = type(module) is nn.GELU and module.approximate == "tanh"
    return in_place_of(module, nn.GELU, NTGELUTanh if is_tanh else NTGELU)

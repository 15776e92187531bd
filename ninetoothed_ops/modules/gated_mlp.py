"""The gated MLP of transformers' Llama, Mistral, Qwen and Gemma models, with gate and up as one product."""

import functools
from typing import Any, ClassVar, SupportsIndex

import torch
from torch import nn

from ninetoothed.errors import ArgumentTypeError
from ninetoothed.runtime.private import has_global_hook, runs_forward_alone

from .activations import NTGELU, NTGELUTanh, NTQuickGELU, NTReLUSquared
from .joint import JointModule, project
from .overrides import are_overridden
from .silu import NTSiLU

# By the class of an activation: its function, by the name that `ninetoothed.gated` knows.
FUNCTIONS: dict[type[nn.Module], str] = {
    NTSiLU: "silu",
    nn.ReLU: "relu",
    **{cls: cls.function for cls in (NTGELU, NTGELUTanh, NTQuickGELU, NTReLUSquared)},
}


class NTGatedMLP(JointModule):
    """An MLP with `gate_proj`, `up_proj`, `act_fn` and `down_proj`, of which the first two are one product.

    Where `act_fn` is an NTSiLU, `ninetoothed.swiglu` applies it and multiplies in one launch, and where it is another
    activation of NineToothed or a `torch.nn.ReLU`, `ninetoothed.gated` does.

    It exists only in the place of an MLP of transformers (`swap_modules(model, join=True)` puts it there, as a subclass
    of that module's class too), keeps all that this holds, and is called the same way. `forward(x)`: `(..., hidden)` ->
    `(..., hidden)`, `down_proj(act_fn(gate_proj(x)) * up_proj(x))`.
    """

    replaced: ClassVar[type[nn.Module]]
    siblings = ("gate_proj", "up_proj")
    act_fn: nn.Module
    down_proj: nn.Module

    def __init__(self, *_: Any, **__: Any) -> None:
        raise ArgumentTypeError(
            "NTGatedMLP cannot be made from arguments: ninetoothed_ops.swap_modules(model, join=True) puts it in the "
            "place of a model's MLP."
        )

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple:
        """Let copies and pickles know the class by the one that it replaced, which can be imported."""
        return _make, (type(self).replaced,), self.__dict__

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = project(self, x, NTGatedMLP.siblings)
        return self.down_proj(gated(self.act_fn, gate, up))


def gated(activation: nn.Module, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Compute `activation(gate) * up`, in one launch where there is a kernel for it."""
    function = FUNCTIONS.get(type(activation))
    alike = type(gate) is type(up) is torch.Tensor and gate.dtype == up.dtype and gate.shape == up.shape
    is_alone = function is not None and runs_forward_alone(activation) and not has_global_hook()
    if function is None or not (alike and is_alone) or are_overridden(gate, up):
        return activation(gate) * up
    if function == "silu":
        return torch.ops.ninetoothed.swiglu(gate, up)
    return torch.ops.ninetoothed.gated(gate, up, function)


@functools.cache
def replacing(cls: type[nn.Module]) -> type[NTGatedMLP]:
    """Make the NTGatedMLP that is a `cls` too: by their class transformers finds modules whose outputs it captures."""
    return type("NTGatedMLP", (NTGatedMLP, cls), {"__module__": __name__, "replaced": cls})


def _make(cls: type[nn.Module]) -> NTGatedMLP:
    # A class is hashable, whatever mypy thinks of `nn.Module.__hash__`.
    return object.__new__(replacing(cls))  # type: ignore[arg-type]

"""The gated MLP of transformers' Phi-3 and GLM models, whose gate and up are one weight."""

import functools
from typing import ClassVar, SupportsIndex

import torch
from torch import nn

from ninetoothed.errors import ArgumentTypeError

from .gated_mlp import gated


class NTFusedGatedMLP(nn.Module):
    """An MLP with `gate_up_proj`, `activation_fn` and `down_proj`: activation and product of gate and up in one launch.

    It exists only in the place of an MLP of transformers (`swap_modules(model, join=True)` puts it there, as a subclass
    of that module's class too), keeps all that this holds, and is called the same way. `forward(hidden_states)`:
    `(..., hidden)` -> `(..., hidden)`, `down_proj(activation_fn(gate) * up)` of the halves of `gate_up_proj`'s output.
    """

    replaced: ClassVar[type[nn.Module]]
    gate_up_proj: nn.Module
    activation_fn: nn.Module
    down_proj: nn.Module

    def __init__(self, *_: object, **__: object) -> None:
        raise ArgumentTypeError(
            "NTFusedGatedMLP cannot be made from arguments: ninetoothed_ops.swap_modules(model, join=True) puts it in "
            "the place of a model's MLP."
        )

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple:
        """Let copies and pickles know the class by the one that it replaced, which can be imported."""
        return _make, (type(self).replaced,), self.__dict__

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up_proj(hidden_states).chunk(2, dim=-1)
        return self.down_proj(gated(self.activation_fn, gate, up))


@functools.cache
def replacing(cls: type[nn.Module]) -> type[NTFusedGatedMLP]:
    """Make the NTFusedGatedMLP that is a `cls` too: by their class transformers finds modules."""
    return type("NTFusedGatedMLP", (NTFusedGatedMLP, cls), {"__module__": __name__, "replaced": cls})


def _make(cls: type[nn.Module]) -> NTFusedGatedMLP:
    # A class is hashable, whatever mypy thinks of `nn.Module.__hash__`.
    return object.__new__(replacing(cls))  # type: ignore[arg-type]

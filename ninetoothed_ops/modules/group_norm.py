"""`torch.nn.GroupNorm` on NineToothed's group_norm."""

import torch
from torch import nn

from ..ops.group_norm import group_norm
from .eligibility import in_place_of
from .overrides import are_overridden
from .quantisation import PassedBy

# A patch of the class after a swap is seen by comparing.
FORWARD = nn.GroupNorm.forward


class NTGroupNorm(PassedBy, nn.GroupNorm):
    """A `torch.nn.GroupNorm`: its statistics are in float32 for halves."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        weight, bias = self.weight, self.bias
        is_theirs = torch.compiler.is_compiling() or nn.GroupNorm.forward is not FORWARD
        if is_theirs or are_overridden(input, weight, bias):
            return nn.GroupNorm.forward(self, input)
        return group_norm(input, self.num_groups, weight, bias, self.eps)


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """`NTGroupNorm` for a plain `torch.nn.GroupNorm`, a reason for a subclass of it, None for anything else."""
    return in_place_of(module, nn.GroupNorm, NTGroupNorm, "weight", "bias")

"""`torch.nn.Dropout` on NineToothed's dropout, of which a call keeps a seed and no mask."""

import torch
from torch import nn

from ..ops.dropout import dropout
from .eligibility import in_place_of
from .overrides import are_overridden

# A patch of the class after a swap is seen by comparing.
FORWARD = nn.Dropout.forward


class NTDropout(nn.Dropout):
    """A `torch.nn.Dropout`: it draws from the same generator, and other numbers; in compiled code it is PyTorch's."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        is_theirs = torch.compiler.is_compiling() or nn.Dropout.forward is not FORWARD
        if is_theirs or are_overridden(input):
            return nn.Dropout.forward(self, input)
        return dropout(input, self.p, self.training, self.inplace)


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """`NTDropout` for a plain `torch.nn.Dropout`, a reason for a subclass of it, None for anything else."""
    return in_place_of(module, nn.Dropout, NTDropout)

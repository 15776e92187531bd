"""`torch.nn.Dropout` on NineToothed's dropout, of which a call keeps a seed and no mask."""

import torch
from torch import nn

from ..ops.dropout import dropout
from .overrides import are_overridden


class NTDropout(nn.Dropout):
    """A `torch.nn.Dropout`: it draws from the same generator, and other numbers."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if are_overridden(input):
            return super().forward(input)
        return dropout(input, self.p, self.training, self.inplace)

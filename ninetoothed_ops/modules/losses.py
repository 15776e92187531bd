"""`torch.nn.KLDivLoss` on NineToothed's kl_div, and the divergence of Jensen and Shannon as a module."""

import torch
from torch import nn

from ..ops.jsd import jsd
from ..ops.kl_div import kl_div
from .eligibility import in_place_of
from .overrides import are_overridden

# A patch of the class after a swap is seen by comparing.
FORWARD = nn.KLDivLoss.forward


class NTKLDivLoss(nn.KLDivLoss):
    """A `torch.nn.KLDivLoss`; in compiled code it is PyTorch's."""

    def forward(self, input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        is_theirs = torch.compiler.is_compiling() or nn.KLDivLoss.forward is not FORWARD
        if is_theirs or are_overridden(input, target):
            return nn.KLDivLoss.forward(self, input, target)
        return kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class NTJSDLoss(nn.Module):
    """The generalised divergence of Jensen and Shannon of logarithms: see `ninetoothed_ops.jsd`.

    `forward(input, target, labels=None)`: the logarithms of a student's and a teacher's probabilities, of the shape
    (..., classes), and labels (...), of which those that are `ignore_index` leave their rows out.
    """

    def __init__(self, beta: float = 0.5, ignore_index: int = -100, reduction: str = "mean"):
        super().__init__()
        self.beta, self.ignore_index, self.reduction = beta, ignore_index, reduction

    def forward(self, input: torch.Tensor, target: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        return jsd(
            input, target, labels, beta=self.beta, ignore_index=self.ignore_index, reduction=self.reduction
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"beta={self.beta}, ignore_index={self.ignore_index}, reduction={self.reduction!r}"


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """`NTKLDivLoss` for a plain `torch.nn.KLDivLoss`, a reason for a subclass of it, None for anything else."""
    return in_place_of(module, nn.KLDivLoss, NTKLDivLoss)

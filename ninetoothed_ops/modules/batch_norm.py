"""`torch.nn.BatchNorm1d`, `BatchNorm2d` and `BatchNorm3d` on NineToothed's batch_norm."""

import torch
from torch import nn

from ..ops.batch_norm import batch_norm
from .eligibility import in_place_of
from .overrides import are_overridden
from .quantisation import PassedBy

Module = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d
# A patch of the class after a swap is seen by comparing.
FORWARD = nn.BatchNorm2d.forward


def normalised(module: Module, input: torch.Tensor) -> torch.Tensor:
    """Compute a batch norm; while it trains, count the batch and move the running statistics as PyTorch's does."""
    momentum = 0.0 if module.momentum is None else module.momentum
    if module.training and module.track_running_stats and module.num_batches_tracked is not None:
        module.num_batches_tracked.add_(1)
        if module.momentum is None:  # The mean over all batches.
            momentum = 1.0 / float(module.num_batches_tracked)
    mean, variance = module.running_mean, module.running_var
    is_training = module.training or mean is None and variance is None
    if module.training and not module.track_running_stats:
        mean = variance = None

    return batch_norm(input, mean, variance, module.weight, module.bias, is_training, momentum, module.eps)


def _is_left(module: Module, cls: type[Module], input: torch.Tensor, *dimensions: int) -> bool:
    """Tell whether the forward of PyTorch's class is called.

    It raises for inputs of other dimensions, and in compiled code Inductor fuses it with what lies around it.
    """
    is_theirs = torch.compiler.is_compiling() or cls.forward is not FORWARD
    return is_theirs or input.ndim not in dimensions or are_overridden(input, module.weight, module.bias)


class NTBatchNorm1d(PassedBy, nn.BatchNorm1d):
    """A `torch.nn.BatchNorm1d`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        is_left = _is_left(self, nn.BatchNorm1d, input, 2, 3)
        return nn.BatchNorm1d.forward(self, input) if is_left else normalised(self, input)


class NTBatchNorm2d(PassedBy, nn.BatchNorm2d):
    """A `torch.nn.BatchNorm2d`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        is_left = _is_left(self, nn.BatchNorm2d, input, 4)
        return nn.BatchNorm2d.forward(self, input) if is_left else normalised(self, input)


class NTBatchNorm3d(PassedBy, nn.BatchNorm3d):
    """A `torch.nn.BatchNorm3d`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        is_left = _is_left(self, nn.BatchNorm3d, input, 5)
        return nn.BatchNorm3d.forward(self, input) if is_left else normalised(self, input)


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """The class of ours for a plain batch norm of PyTorch's, a reason for a subclass, None for anything else."""
    classes = (
        (nn.BatchNorm1d, NTBatchNorm1d),
        (nn.BatchNorm2d, NTBatchNorm2d),
        (nn.BatchNorm3d, NTBatchNorm3d),
    )
    for theirs, ours in classes:
        if isinstance(module, theirs):
            return in_place_of(module, theirs, ours, "weight", "bias")
    return None

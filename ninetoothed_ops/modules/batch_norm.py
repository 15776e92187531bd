"""`torch.nn.BatchNorm1d`, `BatchNorm2d` and `BatchNorm3d` on NineToothed's batch_norm."""

import torch
from torch import nn

from ..ops.batch_norm import batch_norm
from .overrides import are_overridden

Module = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d


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


def _is_left(module: Module, input: torch.Tensor, *dimensions: int) -> bool:
    """Tell whether PyTorch's forward is called, which raises for inputs of other dimensions."""
    return input.ndim not in dimensions or are_overridden(input, module.weight, module.bias)


class NTBatchNorm1d(nn.BatchNorm1d):
    """A `torch.nn.BatchNorm1d`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) if _is_left(self, input, 2, 3) else normalised(self, input)


class NTBatchNorm2d(nn.BatchNorm2d):
    """A `torch.nn.BatchNorm2d`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) if _is_left(self, input, 4) else normalised(self, input)


class NTBatchNorm3d(nn.BatchNorm3d):
    """A `torch.nn.BatchNorm3d`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) if _is_left(self, input, 5) else normalised(self, input)

"""`torch.nn.Conv2d` on NineToothed's conv2d."""

import torch
from torch import nn
from torch.nn import functional

from ..ops.conv2d import conv2d, operator
from .eligibility import unsuitable
from .overrides import are_overridden

# A patch of the class after a swap is seen by comparing.
FORWARD = nn.Conv2d.forward


class NTConv2d(nn.Conv2d):
    """A `torch.nn.Conv2d` that pads with zeros, on `ninetoothed.conv2d`.

    `forward(input)`: `(N, in_channels, H, W)`, or without N -> `(N, out_channels, P, Q)`, with channels last where they
    are in the input or the weight. The GPU reads a weight that has its channels last as it is, as
    `model.to(memory_format=torch.channels_last)` lays it out; any other is repacked in each call. One that has become
    another class of tensor since the swap is given to PyTorch's function, and so is any under a `TorchFunctionMode`.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        weight, bias = self.weight, self.bias
        if torch.jit.is_scripting():
            return functional.conv2d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        # Its options may be others since the swap.
        is_padded = self.padding_mode == "zeros"
        if not is_padded or are_overridden(input, weight, bias) or nn.Conv2d.forward is not FORWARD:
            return nn.Conv2d.forward(self, input)
        stride, padding, dilation = self.stride, self.padding, self.dilation
        # The operator takes pairs alone: no padding by name, which may be one pixel more on one side.
        function = operator if type(stride) is type(padding) is type(dilation) is tuple else conv2d
        return function(input, weight, bias, stride, padding, dilation, self.groups)


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """`NTConv2d` for a plain `torch.nn.Conv2d`, a reason for what only looks like one, None for anything else."""
    if type(module) is nn.Conv2d:
        return unsuitable(module, "weight", "bias") or _unpadded(module) or NTConv2d
    if isinstance(module, nn.Conv2d):
        return unsuitable(module) or "a subclass of torch.nn.Conv2d, which may compute something else"
    return None


def _unpadded(module: nn.Conv2d) -> str | None:
    """Give the reason why the operator cannot pad as a module does; None if it can."""
    is_padded = module.padding_mode == "zeros"
    return None if is_padded else f"its padding_mode is {module.padding_mode!r}; the operator pads with zeros alone"

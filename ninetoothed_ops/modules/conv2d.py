"""`torch.nn.Conv2d` on NineToothed's conv2d, and its weight in the layout that this reads best on a GPU."""

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from ..ops.conv2d import convolve, operator
from ..ops.packing import pays
from .eligibility import in_place_of, unmovable, users_of_memory
from .overrides import are_overridden
from .quantisation import PassedBy

# A patch of the class after a swap is seen by comparing.
FORWARD = nn.Conv2d.forward
# The attribute by which a module is known to have been repacked.
REPACKED = "_is_repacked"


class NTConv2d(PassedBy, nn.Conv2d):
    """A `torch.nn.Conv2d` that pads with zeros, on `ninetoothed.conv2d`.

    `forward(input)`: `(N, in_channels, H, W)`, or without N -> `(N, out_channels, P, Q)`, with channels last where they
    are in the input or the weight; once `swap_modules` has repacked the weight, where they are in the input. The GPU
    reads a weight that has its channels last as it is; any other is converted in each call. One that has become another
    class of tensor since the swap is given to PyTorch's function, and so is any under a `TorchFunctionMode`.
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
        function = operator if type(stride) is type(padding) is type(dilation) is tuple else convolve
        return function(input, weight, bias, stride, padding, dilation, self.groups, self.__dict__.get(REPACKED, False))


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """`NTConv2d` for a plain `torch.nn.Conv2d`, a reason for what only looks like one, None for anything else."""
    verdict = in_place_of(module, nn.Conv2d, NTConv2d, "weight", "bias")
    if verdict is NTConv2d and module.padding_mode != "zeros":
        return f"its padding_mode is {module.padding_mode!r}; the operator pads with zeros alone"
    return verdict


def repack_all(model: nn.Module, modules: Mapping[str, nn.Module]) -> tuple[str, ...]:
    """Repack the weights, of these modules of a model, that their GPU reads faster with channels last; name those.

    A weight stays the same Parameter with the same values, with other strides in a memory of its own, as after
    `module.to(memory_format=torch.channels_last)`. On a CPU, where nothing is gained, PyTorch's fused optimisers would
    combine it with state of other strides in silence; on a GPU they refuse that.
    """
    users = users_of_memory(model)
    convolutions = {name: each for name, each in modules.items() if isinstance(each, NTConv2d)}
    repacked = {
        name: each for name, each in convolutions.items() if pays(each.weight) and not unmovable(each.weight, users)
    }
    for module in repacked.values():
        _lay_out(module, torch.channels_last)
        setattr(module, REPACKED, True)
    return tuple(repacked)


def unpack(module: nn.Module) -> None:
    """Give a weight that was repacked its strides back."""
    if vars(module).pop(REPACKED, False):
        _lay_out(module, torch.contiguous_format)


def _lay_out(module: nn.Module, memory_format: torch.memory_format) -> None:
    # Inference tensors could not be trained later.
    with torch.inference_mode(False):
        module.to(memory_format=memory_format)

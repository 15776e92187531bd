"""`torch.nn.LayerNorm` on NineToothed's layer_norm, and the layer norms of transformers that differ from it."""

import torch
from torch import nn
from torch.nn import functional

from ..autocast import is_enabled
from ..ops.layer_norm import operator as layer_norm
from .eligibility import in_place_of
from .overrides import are_overridden
from .quantisation import PassedBy
from .substitute import Substitute, is_outdated, own_forward

# A patch of the class after a swap is seen by comparing.
FORWARD = nn.LayerNorm.forward


class NTLayerNorm(PassedBy, nn.LayerNorm):
    """A `torch.nn.LayerNorm` on `ninetoothed.layer_norm`.

    `forward(input)`: `(..., *normalized_shape)` -> the same shape, `(input - mean) / sqrt(variance + eps) * weight +
    bias`, with mean and variance over `normalized_shape`, in float32.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        # A module looks its parameters up by a function in Python: once each.
        weight, bias = self.weight, self.bias
        if (
            are_overridden(input, weight, bias, takes_nested=True, takes_dtensors=True)
            or nn.LayerNorm.forward is not FORWARD
        ):
            return nn.LayerNorm.forward(self, input)
        return layer_norm(input, self.normalized_shape, weight, bias, self.eps)


class NTChannelsLayerNorm(NTLayerNorm):
    """The layer norm of ConvNeXt and others, over the channels: the last dimension, or the first of each image."""

    data_format: str

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if self.data_format != "channels_first":
            return super().forward(input)
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class NTRoundedLayerNorm(NTLayerNorm):
    """The layer norm of Cohere and OLMo, without bias or without both: the result has its input's type.

    `swap_modules` puts it in their place. It holds what they hold: a `weight` of one dimension, or none, and
    `variance_epsilon`, or none.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        # It need not be a parameter: pruning and parametrisation compute it.
        weight, eps = getattr(self, "weight", None), self.__dict__.get("variance_epsilon", 1e-5)
        if are_overridden(input, weight):
            normalized = functional.layer_norm(input.float(), input.shape[-1:], eps=eps)
            return (normalized if weight is None else weight.float() * normalized).to(input.dtype)
        output = layer_norm(input, input.shape[-1:], weight, None, eps)
        # Autocast knows PyTorch's norm, whose result is float32, and none of a family's.
        return output if output.dtype == input.dtype else output.to(input.dtype)

    def extra_repr(self) -> str:
        weight = self._parameters.get("weight")
        return "" if weight is None else f"{tuple(weight.shape)}, eps={self.variance_epsilon}"


class NTUnitOffsetLayerNorm(Substitute):
    """The layer norm of Nemotron and VideoPrism: the factor is `1 + weight`."""

    normalized_shape: tuple[int, ...]
    weight: torch.Tensor
    bias: torch.Tensor | None
    eps: float

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        weight, bias = self.weight, self.bias
        if _computes_itself(self, input, weight, bias):
            return own_forward(self)(self, input)
        return layer_norm(input, self.normalized_shape, weight + 1.0, bias, self.eps)


class NTDebertaLayerNorm(Substitute):
    """The layer norm of DeBERTa, with a `weight`, a `bias` and `variance_epsilon`."""

    weight: torch.Tensor
    bias: torch.Tensor
    variance_epsilon: float

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        weight, bias = self.weight, self.bias
        if _computes_itself(self, hidden_states, weight, bias):
            return own_forward(self)(self, hidden_states)
        return layer_norm(hidden_states, weight.shape, weight, bias, self.variance_epsilon)


def _computes_itself(module: nn.Module, input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> bool:
    """Tell whether the class replaced may round elsewhere: of types that differ, under autocast, or patched."""
    is_mixed = input.dtype != weight.dtype or is_enabled(input.device.type)
    return is_mixed or is_outdated(module) or are_overridden(input, weight, bias)


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """`NTLayerNorm` for a plain `torch.nn.LayerNorm`, a reason for a subclass of it, None for anything else."""
    return in_place_of(module, nn.LayerNorm, NTLayerNorm, "weight", "bias")

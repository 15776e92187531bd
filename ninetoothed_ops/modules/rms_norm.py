"""`torch.nn.RMSNorm` on NineToothed's rms_norm, and the norms of transformers that differ from it in their types."""

from typing import Any, ClassVar

import torch
from torch import nn

from ..ops.rms_norm import operator as rms_norm
from .eligibility import in_place_of
from .overrides import are_overridden
from .residual import AHEAD, eps_of

HALVES = (torch.float16, torch.bfloat16)
# A patch of the class after a swap is seen by comparing.
FORWARD = nn.RMSNorm.forward


class NTRMSNorm(nn.RMSNorm):
    """A `torch.nn.RMSNorm` on `ninetoothed.rms_norm`.

    `forward(x)`: `(..., *normalized_shape)` -> the same shape, `x / sqrt(mean(x ** 2) + eps) * weight`, the mean over
    `normalized_shape` in float32.

    An instance may also hold what transformers' `LlamaRMSNorm` holds: a `weight` of one dimension, and
    `variance_epsilon` or `eps`. Where the input is a sum that was added for this norm, its norm is there already
    (residual.py).
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # A module looks parameters, and what it has not, up by a function in Python.
        held, weight = self.__dict__, self.weight
        shape = held.get("normalized_shape")
        if are_overridden(x, weight, takes_nested=shape is not None, takes_dtensors=True) or (
            nn.RMSNorm.forward is not FORWARD and shape is not None
        ):
            return _written_out(x, weight, eps_of(self)) if shape is None else nn.RMSNorm.forward(self, x)
        if not torch.compiler.is_compiling() and AHEAD in held:
            output = held[AHEAD].take(self, x)
            if output is not None:
                return output
        if shape is not None:
            return rms_norm(x, shape, weight, self.eps)
        eps = eps_of(self)
        if weight.dtype == x.dtype:
            return _rounded(x, weight, eps)
        # Llama's norm leaves types that differ to PyTorch's promotion: float32 weights make a half's output float32.
        return weight * _rounded(x, None, eps)

    def extra_repr(self) -> str:
        if "normalized_shape" in self.__dict__:
            return super().extra_repr()
        weight, eps = self._parameters.get("weight"), f"eps={eps_of(self)}"
        return eps if weight is None else f"{tuple(weight.shape)}, {eps}"


class NTUnroundedRMSNorm(NTRMSNorm):
    """The norm of ImageGPT, which rounds nowhere: autocast on a GPU squares in float32, which the result has then."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        is_widened = input.dtype in HALVES and input.is_cuda and torch.is_autocast_enabled("cuda")
        return NTRMSNorm.forward(self, input.float() if is_widened else input)


class NTRoundedRMSNorm(NTRMSNorm):
    """The norm of OLMo 2, Gemma 3n and others: the result has its input's type, whatever the type of the weight.

    `swap_modules` puts it in their place. It holds what they hold: a `weight` of one dimension, or none, and `eps` or
    `variance_epsilon`.
    """

    unit_offset: ClassVar[bool] = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        # It need not be a parameter: pruning and parametrisation compute it.
        weight, eps = getattr(self, "weight", None), eps_of(self)
        if weight is not None and weight.ndim == 0:
            weight = weight.expand(input.shape[-1:])
        if are_overridden(input, weight):
            factor = 1.0 if weight is None else weight.float() + self.unit_offset
            return (_normalized(input, eps) * factor).to(input.dtype)
        return _rounded(input, weight, eps, self.unit_offset)


class NTUnitOffsetRMSNorm(NTRoundedRMSNorm):
    """The norm of Gemma and others: the factor is `1 + weight`, and the result has its input's type."""

    unit_offset = True


class NTT5RMSNorm(NTRMSNorm):
    """The norm of T5 and others: the result has the type of the weight if that is a half, else float32."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        weight, eps = self.weight, eps_of(self)
        if input.dtype == weight.dtype and not are_overridden(input, weight):
            return _rounded(input, weight, eps)
        normalized = _normalized(input, eps)
        return weight * (normalized.to(weight.dtype) if weight.dtype in HALVES else normalized)


def _rounded(
    input: torch.Tensor, weight: torch.Tensor | None, eps: float | None, unit_offset: bool = False
) -> torch.Tensor:
    """Compute the norm in the input's type, under autocast too, which knows PyTorch's norm and none of a family's."""
    output = rms_norm(input, input.shape[-1:], weight, eps, unit_offset)
    return output if output.dtype == input.dtype else output.to(input.dtype)


def _written_out(input: torch.Tensor, weight: torch.Tensor, eps: Any) -> torch.Tensor:
    """Llama's norm in PyTorch's functions."""
    return weight * _normalized(input, eps).to(input.dtype)


def _normalized(input: torch.Tensor, eps: Any) -> torch.Tensor:
    """The norm without a weight, in float32, in PyTorch's functions."""
    wide = input.to(torch.float32)
    return wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """`NTRMSNorm` for a plain `torch.nn.RMSNorm`, a reason for what only looks like one, None for anything else."""
    looks_alike = "RMSNorm" in type(module).__name__
    return in_place_of(module, nn.RMSNorm, NTRMSNorm, "weight") or ("not a torch.nn.RMSNorm" if looks_alike else None)

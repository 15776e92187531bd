"""`torch.nn.RMSNorm` on NineToothed's rms_norm."""

import torch
from torch import nn

from ..ops.rms_norm import operator as rms_norm
from .eligibility import unsuitable
from .overrides import are_overridden
from .residual import AHEAD


class NTRMSNorm(nn.RMSNorm):
    """A `torch.nn.RMSNorm` on `ninetoothed.rms_norm`.

    `forward(input)`: `(..., *normalized_shape)` -> the same shape, `input / sqrt(mean(input ** 2) + eps) * weight`, the
    mean over `normalized_shape` in float32.

    An instance may also hold what transformers' `LlamaRMSNorm` holds: a `weight` of one dimension and
    `variance_epsilon`. Where the input is a sum that was added for this norm, its norm is there already (residual.py).
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        # A module looks parameters, and what it has not, up by a function in Python.
        eps, weight = self.__dict__.get("variance_epsilon"), self.weight
        if are_overridden(input, weight):
            return nn.RMSNorm.forward(self, input) if eps is None else _written_out(input, weight, eps)
        if not torch.compiler.is_compiling() and AHEAD in self.__dict__:
            output = self.__dict__[AHEAD].take(input)
            if output is not None:
                return output
        if eps is None:
            return rms_norm(input, self.normalized_shape, weight, self.eps)
        if weight.dtype == input.dtype:
            return rms_norm(input, weight.shape, weight, eps)
        # Llama's norm leaves types that differ to PyTorch's promotion: float32 weights make a half's output float32.
        return weight * rms_norm(input, weight.shape, None, eps)

    def extra_repr(self) -> str:
        eps = getattr(self, "variance_epsilon", None)
        return super().extra_repr() if eps is None else f"{tuple(self.weight.shape)}, eps={eps}"


def _written_out(input: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Llama's norm in PyTorch's functions."""
    wide = input.to(torch.float32)
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(input.dtype)


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """`NTRMSNorm` for a plain `torch.nn.RMSNorm`, a reason for what only looks like one, None for anything else."""
    if type(module) is nn.RMSNorm:
        return unsuitable(module, "weight") or NTRMSNorm
    if isinstance(module, nn.RMSNorm):
        return unsuitable(module) or "a subclass of torch.nn.RMSNorm, which may compute something else"
    if "RMSNorm" in type(module).__name__:
        return "not a torch.nn.RMSNorm"
    return None

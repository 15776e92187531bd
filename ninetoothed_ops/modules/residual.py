"""Residual sums with the norm behind them in one launch, by `ninetoothed.add_rms_norm`.

A layer adds, and a norm's own forward norms, perhaps that of the next layer: between the two a model may do anything.
So the sum is what is handed on, and what the norm will give for it waits at the norm. The norm gives it for that very
sum alone: for another tensor, for one that was written to since, or once its weight has changed, it computes. What no
tensor tells, a hook that writes past the versions of tensors, is looked for before.
"""

import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import nn

from ninetoothed.runtime.private import has_global_hook, is_transformed, runs_forward_alone, version_of

from .overrides import are_overridden

# The attributes by which a norm, and a layer before it, hold the one NormedAhead of the norm.
AHEAD, NEXT = "_normed_ahead", "_norm_behind"


class Normed(NamedTuple):
    """The norm of a sum, and all on which it depends."""

    output: torch.Tensor
    total: weakref.ref
    weight: torch.Tensor
    versions: tuple[int | None, int | None]
    eps: float | None


class NormedAhead:
    """Add for a norm, and keep what the norm gives for the sum until it is called; a copy is of no norm.

    caller: the layer, if any, that gets the sum and calls the norm.
    """

    def __init__(self, norm: nn.Module | None = None, caller: nn.Module | None = None) -> None:
        self.norm, self.kind = norm, type(norm)
        self.caller = caller
        self.normed: Normed | None = None

    def __reduce__(self) -> tuple:
        return NormedAhead, ()

    def add(self, input: torch.Tensor, residual: torch.Tensor, adder: nn.Module | None = None) -> torch.Tensor:
        """Compute `residual + input`, and its norm, if the norm is what it was and calling it would do no more.

        `adder` is the layer, if any, that the sum leaves as its output.
        """
        norm = self.norm
        weight = norm._parameters.get("weight") if norm is not None and type(norm) is self.kind else None
        if weight is None or not _are_plain(input, residual, weight) or not _are_bare((norm, adder, self.caller)):
            return residual + input
        eps = eps_of(norm)
        output, total = torch.ops.ninetoothed.add_rms_norm(input, residual, weight, eps)
        versions = version_of(total), version_of(weight)
        if None not in versions:
            self.normed = Normed(output, weakref.ref(total, self._forget), weight, versions, eps)
        return total

    def _forget(self, total: weakref.ref) -> None:
        """Let go of the norm of a sum that is gone."""
        normed = self.normed
        if normed is not None and normed.total is total:
            self.normed = None

    def take(self, input: torch.Tensor) -> torch.Tensor | None:
        """Give the norm of the input if it was computed with it, once; None if it is to be computed."""
        # Read once: another thread may put its own there meanwhile.
        normed, self.normed = self.normed, None
        if normed is None or normed.total() is not input or self.norm is None:
            return None
        weight = self.norm._parameters.get("weight")
        is_same = weight is normed.weight and normed.eps == eps_of(self.norm)
        if not is_same or not _are_plain(input, weight):
            return None
        return normed.output if normed.versions == (version_of(input), version_of(weight)) else None


def eps_of(norm: Any) -> float | None:
    """Give the eps of a `torch.nn.RMSNorm`, or of a module that holds what transformers' norms hold."""
    return norm.variance_epsilon if hasattr(norm, "variance_epsilon") else norm.eps


def _are_plain(input: torch.Tensor, *others: torch.Tensor) -> bool:
    """Tell whether tensors are plain ones that fit, count their versions, and are asked for nothing but their values.

    A Parameter among them is a weight of one row.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or torch.is_inference_mode_enabled():
        return False
    records, columns = torch.is_grad_enabled(), input.shape[-1:]
    for each in (input, *others):
        if type(each) not in (torch.Tensor, nn.Parameter) or each.is_inference() or (records and each.requires_grad):
            return False
        shape = columns if type(each) is nn.Parameter else input.shape
        if each.shape != shape or each.dtype != input.dtype or each.device != input.device or is_transformed(each):
            return False
    return not are_overridden(input)


def _are_bare(modules: Iterable[nn.Module | None]) -> bool:
    """Tell whether calling the modules runs their forwards and no hook or patch."""
    return not has_global_hook() and all(each is None or runs_forward_alone(each) for each in modules)


def ahead_of(norm: nn.Module, caller: nn.Module | None = None) -> NormedAhead:
    """Give a norm a NormedAhead, and return it."""
    found = vars(norm)[AHEAD] = NormedAhead(norm, caller)
    return found


def unlink(module: nn.Module) -> None:
    """Let a layer, or a norm, know of no other again."""
    vars(module).pop(AHEAD, None)
    vars(module).pop(NEXT, None)

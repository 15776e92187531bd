"""Residual sums with the norm behind them in one launch, by `ninetoothed.add_rms_norm`.

A layer adds, and a norm's own forward norms, perhaps that of the next layer: between the two a model may do anything.
So the sum is what is handed on, and what the norm will give for it waits at the norm. The norm gives it for that very
sum alone: for another tensor, for one that was written to since, or once its weight has changed, it computes. What no
tensor tells, writes past its version as through `.data`, is looked for before: there is no hook, and between two layers
no code but that of PyTorch and transformers runs.
"""

import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import nn

from ninetoothed.runtime.private import has_global_hook, has_transforms, runs_forward_alone, version_of

from .overrides import are_overridden, are_recorded

# The attributes by which a norm, and a layer before it, hold the one NormedAhead of the norm.
AHEAD, NEXT = "_normed_ahead", "_norm_behind"
# Whose code between two layers writes to no tensor past its version.
PACKAGES = ("torch", "transformers")


class Normed(NamedTuple):
    """The norm of a sum, and all on which it depends."""

    output: torch.Tensor
    total: weakref.ref
    weight: torch.Tensor
    states: tuple[int | None, ...]
    eps: float | None


class NormedAhead:
    """Add for a norm, and keep what the norm gives for the sum until it is called; a copy is of no norm.

    caller: the layer, if any, that gets the sum and calls the norm. parent: the module, if any, whose forward runs
    between the sum and that, and forward: that function, if its code is known.
    """

    def __init__(
        self, norm: nn.Module | None = None, caller: nn.Module | None = None, parent: nn.Module | None = None
    ) -> None:
        self.norm, self.kind = norm, type(norm)
        self.caller, self.parent = caller, parent
        self.forward = type(parent).forward if parent is not None and _is_known(type(parent).forward) else None
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
        parent = self.parent
        if parent is not None and (type(parent).forward is not self.forward or "forward" in vars(parent)):
            return residual + input
        eps = eps_of(norm)
        output, total = torch.ops.ninetoothed.add_rms_norm(input, residual, weight, eps)
        states = _states(total, weight)
        if None not in states:
            self.normed = Normed(output, weakref.ref(total, self._forget), weight, states, eps)
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
        weight = normed.weight
        is_same = self.norm._parameters.get("weight") is weight and normed.eps == eps_of(self.norm)
        if not is_same or _is_observed(input, weight):
            return None
        return normed.output if normed.states == _states(input, weight) else None


def _is_known(forward: Any) -> bool:
    """Tell whether a forward, and all that decorates it, are PyTorch's or transformers'."""
    while forward is not None:
        if getattr(forward, "__globals__", {}).get("__name__", "").partition(".")[0] not in PACKAGES:
            return False
        forward = getattr(forward, "__wrapped__", None)
    return True


def _states(total: torch.Tensor, weight: torch.Tensor) -> tuple[int | None, ...]:
    """Give the versions of two tensors, and where they lie."""
    return version_of(total), version_of(weight), total.data_ptr(), weight.data_ptr()


def eps_of(norm: Any) -> float | None:
    """Give the eps of a `torch.nn.RMSNorm`, or of a module that holds what transformers' norms hold."""
    # A module looks what it has not up by a function in Python.
    held = norm.__dict__
    return held["variance_epsilon"] if "variance_epsilon" in held else held["eps"]


def _are_plain(input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> bool:
    """Tell whether tensors are plain ones that fit and count their versions, and only their values are asked for."""
    if not type(input) is type(residual) is torch.Tensor or type(weight) is not nn.Parameter or weight.is_inference():
        return False
    if not are_alike(input, residual, weight):
        return False
    # Inference mode counts no versions, and transforms wrap tensors.
    return not (torch.is_inference_mode_enabled() or has_transforms() or _is_observed(input, residual, weight))


def are_alike(input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> bool:
    """Tell whether two tensors of one type fit each other, and the weight of a norm of their sum."""
    is_one_type = input.dtype is residual.dtype is weight.dtype and input.device == residual.device == weight.device
    return is_one_type and input.shape == residual.shape and input.shape[-1:] == weight.shape


def _is_observed(*tensors: torch.Tensor) -> bool:
    """Tell whether calls are traced, given to something else, or recorded for a gradient."""
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or are_overridden(tensors[0]):
        return True
    return are_recorded(*tensors)


def _are_bare(modules: Iterable[nn.Module | None]) -> bool:
    """Tell whether calling the modules runs their forwards and no hook or patch."""
    return not has_global_hook() and all(each is None or runs_forward_alone(each) for each in modules)


def ahead_of(norm: nn.Module, caller: nn.Module | None = None, parent: nn.Module | None = None) -> NormedAhead:
    """Give a norm a NormedAhead, and return it."""
    found = vars(norm)[AHEAD] = NormedAhead(norm, caller, parent)
    return found


def unlink(module: nn.Module) -> None:
    """Let a layer, or a norm, know of no other again."""
    vars(module).pop(AHEAD, None)
    vars(module).pop(NEXT, None)

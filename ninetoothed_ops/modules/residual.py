"""Residual sums with the norm of what comes behind them in one launch, by `ninetoothed.add_rms_norm`.

A layer adds, and the norm of the next one norms the sum: between the two, a model may do anything. So the sum is what
is handed on, and what the norm will give for it waits at the norm. The norm gives it where the sum comes to it straight
from the layer: where both are called by one run of one function, whose code is PyTorch's or transformers', with nothing
between but what calls modules. That is read off the frames of Python, both when the sum is added and when it is normed.
There is no hook and no code of a user between the two then: nothing that could write to the sum past its version (by
`.data`, as a view of NumPy's), or to the weight.
"""

import inspect
import sys
import weakref
from collections.abc import Iterable, Iterator
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import nn

from ninetoothed.runtime.private import (
    calls_of_modules,
    has_global_hook,
    has_transforms,
    runs_forward_alone,
    version_of,
)

from .overrides import are_overridden, are_recorded

# The attributes by which a norm, and a layer before it, hold the one NormedAhead of the norm.
AHEAD, NEXT = "_normed_ahead", "_norm_behind"
# The name by which a frame holds what tells its run.
RUN = "_ninetoothed_run"
# Whose code between two layers writes to no tensor past its version.
PACKAGES = ("torch", "transformers")


class Normed(NamedTuple):
    """The norm of a sum: of which one, in which version, and in which run of the parent's forward it was added."""

    output: torch.Tensor
    total: weakref.ref
    version: int
    run: object


class NormedAhead:
    """Add for a norm, and keep what the norm gives for the sum until it is called; a copy is of no norm.

    caller: the layer, if any, that gets the sum and calls the norm. forward: the code that calls both layers, if it is
    known. straight: the code that may stand between it and them.
    """

    def __init__(
        self,
        norm: nn.Module | None = None,
        caller: nn.Module | None = None,
        parent: nn.Module | None = None,
        layer: type[nn.Module] = nn.Module,
    ) -> None:
        self.norm, self.kind, self.caller = norm, type(norm), caller
        self.forward = None if parent is None else _known_forward(type(parent))
        self.straight = frozenset(each.__code__ for each in (*calls_of_modules, *_calls(layer), *_forwards(layer)))
        self.normed: Normed | None = None

    def __reduce__(self) -> tuple:
        return NormedAhead, ()

    def add(self, input: torch.Tensor, residual: torch.Tensor, adder: nn.Module) -> torch.Tensor:
        """Compute `residual + input`, and its norm, if it will go straight to the norm, and calling that does no more.

        `adder` is the layer that the sum leaves as its output.
        """
        run, norm = self._run(), self.norm
        weight = None
        if run is not None and norm is not None and type(norm) is self.kind:
            weight = norm._parameters.get("weight")
        if weight is None or not _are_plain(input, residual, weight) or not _are_bare((norm, adder, self.caller)):
            return residual + input
        output, total = torch.ops.ninetoothed.add_rms_norm(input, residual, weight, eps_of(norm))
        version = version_of(total)
        if version is not None:
            self.normed = Normed(output, weakref.ref(total, self._forget), version, run)
        return total

    def _forget(self, total: weakref.ref) -> None:
        """Let go of the norm of a sum that is gone."""
        normed = self.normed
        if normed is not None and normed.total is total:
            self.normed = None

    def take(self, norm: nn.Module, input: torch.Tensor) -> torch.Tensor | None:
        """Give the norm of the input if it was computed with it, once; None if it is to be computed."""
        # Read once: another thread may put its own there meanwhile.
        normed, self.normed = self.normed, None
        if normed is None or normed.total() is not input or norm is not self.norm:
            return None
        return normed.output if normed.version == version_of(input) and normed.run is self._run() else None

    def _run(self) -> object | None:
        """Tell the run of the parent's forward that called the module whose forward asks; None if none did, straight.

        It is told by an object among the locals of its frame: to keep the frame would keep all others, and its address
        is that of another one later.
        """
        # Of this function, of the one that asks, and of the module's forward.
        frame: Any = None if self.forward is None else sys._getframe(3)
        while frame is not None and frame.f_code in self.straight:
            frame = frame.f_back
        if frame is None or frame.f_code is not self.forward:
            return None
        return frame.f_locals.setdefault(RUN, object())


def _known_forward(cls: type[nn.Module]) -> CodeType | None:
    """Find the code of a class's forward; None unless that, and all that the class inherits, is of known packages."""
    written: Any = inspect.unwrap(cls.forward)
    names = (getattr(written, "__globals__", {}).get("__name__", ""), *(each.__module__ for each in cls.__mro__[:-1]))
    return written.__code__ if all(map(_is_known, names)) else None


def _is_known(name: str) -> bool:
    return name.partition(".")[0] in PACKAGES


def _calls(cls: type[nn.Module]) -> Iterator[Any]:
    """Find the functions by which instances of a class are called, where it is PyTorch's or transformers'."""
    functions = (vars(each).get("__call__") for each in cls.__mro__ if _is_known(each.__module__))
    return (each for each in functions if hasattr(each, "__code__"))


def _forwards(cls: type[nn.Module]) -> Iterator[Any]:
    """Find the forward of a class, and what it wraps if PyTorch or transformers wrapped it, as for checkpoints."""
    function: Any = cls.forward
    yield function
    while hasattr(function, "__wrapped__") and _is_known(function.__globals__.get("__name__", "")):
        function = function.__wrapped__
        yield function


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


def unlink(module: nn.Module) -> None:
    """Let a layer, or a norm, know of no other again."""
    vars(module).pop(AHEAD, None)
    vars(module).pop(NEXT, None)

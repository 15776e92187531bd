"""A call of a kernel: from the arguments to a launch.

Two dictionaries stand between them. `_prepared` maps the exact signature of a call (types, shapes, strides, alignment)
to a launch that lacks nothing but the pointers: a hit costs a few microseconds (fewer still where `recent` knows the
call). `_variants` maps the *class* of a call (its `Specialisation`) to a compiled program, so that a new batch size
costs some arithmetic and no compilation. The first is bounded; the second is, by the nature of classes.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch._C._dynamo import eval_frame

from ninetoothed import ir
from ninetoothed.backends import triton
from ninetoothed.definition import KernelDefinition
from ninetoothed.runtime import arguments, config, device, prepared, recent, variants
from ninetoothed.runtime.arguments import Call
from ninetoothed.runtime.recent import Recent
from ninetoothed.runtime.specialise import ALIGNMENT, Plan
from ninetoothed.runtime.variants import Variant

# How many exact signatures a kernel remembers; the older half goes when there are more.
CAPACITY = 1024
_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})


def hidden_from_dynamo(function):
    """Let `torch.compile` call a function as it is, between graphs, rather than trace it and all that it calls.

    `torch.compiler.disable` does the same through a wrapper that costs half a microsecond a call, and imports Dynamo.
    """
    function._torchdynamo_disable = True
    function._torchdynamo_disable_msg = "a NineToothed kernel: register it with `ninetoothed_ops.register`"
    try:
        action = eval_frame._FrameAction.SKIP
        eval_frame.set_code_exec_strategy(function.__code__, eval_frame._FrameExecStrategy(action, action))
    except AttributeError:  # no public part of PyTorch, so it may change
        return torch.compiler.disable(function)
    return function


@hidden_from_dynamo
def launch(kernel, args: tuple, kwargs: dict[str, Any]) -> None:
    """Run a kernel (anything with a `definition`) on its arguments.

    On CUDA tensors it is launched on their device, on its current stream, without a synchronisation; on other tensors
    the PyTorch backend runs it. Errors: see `arguments` and `specialise`, all raised before anything is launched.
    """
    launcher_of(kernel)(args, kwargs)


def program(kernel, args: tuple, kwargs: dict[str, Any]) -> ir.Program:
    """The traced program that a call would run."""
    return launcher_of(kernel).trace(args, kwargs).program


def source(kernel, args: tuple, kwargs: dict[str, Any], gpu: device.GPU | None = None) -> KernelSource:
    """The Triton text and the configuration of a call: for the GPU given, else the present one, else an H200.

    `gpu` may stand among the keywords of the call too.
    """
    kwargs = dict(kwargs)
    gpu = gpu or kwargs.pop("gpu", None) or device.current() or device.H200
    variant = launcher_of(kernel).trace(args, kwargs, gpu)
    return KernelSource(triton.emit(variant.program).source, variant.selection.configuration, variant.selection.gpu)


@dataclass(frozen=True)
class KernelSource:
    """What a call compiles to; prints as Triton source under a comment that tells the configuration."""

    text: str
    configuration: config.Configuration
    gpu: Any

    def __str__(self) -> str:
        return f"# {self.configuration} for {self.gpu}\n{self.text}"

    __repr__ = __str__


@hidden_from_dynamo
def launcher_of(kernel) -> Launcher:
    """The kernel's launcher, made at its first call."""
    try:
        return kernel.__dict__["_launcher"]
    except KeyError:
        return kernel.__dict__.setdefault("_launcher", Launcher(kernel.definition))


class Launcher:
    """Launches one kernel and remembers how. Copies and pickles of it start afresh."""

    def __init__(self, definition: KernelDefinition):
        self.definition = definition
        self.plan = Plan(definition)
        self._count = len(definition.parameters)
        self._names = frozenset(definition.constexpr_symbols)
        self._constants = tuple(index for index, kind in enumerate(self.plan.kinds) if kind == "constant")
        self._recent: tuple[Recent, ...] = ()
        self._misses = 0
        self._prepared: dict[tuple, Any] = {}
        self._variants = variants.Cache(self.plan)
        self._lock = threading.RLock()

    def __reduce__(self):
        return Launcher, (self.definition,)

    def __deepcopy__(self, memo):
        return Launcher(self.definition)

    @property
    def variants(self) -> tuple[Variant, ...]:
        """All variants compiled so far."""
        return self._variants.all

    @hidden_from_dynamo
    def __call__(self, args: tuple, kwargs: dict[str, Any]) -> None:
        constants = ()
        if kwargs or len(args) != self._count:
            args, constants = self._bind(args, kwargs)
        for known in self._recent:
            raw = known.raw(args, constants)
            if raw is not None and not _is_outdated(known.found):
                known.found.run(args, raw)
                return
        try:
            signature, raw = _signature(args, constants, self._constants)
            found = self._prepared.get(signature)
        except (RuntimeError, TypeError):  # no memory, or nothing to hash: `check` will say so
            found = None
        if found is None or _is_outdated(found):
            args, raw, found = self._prepare(Call(args, constants))
        else:
            self._remember(args, constants, found)
        found.run(args, raw)

    def _remember(self, args: tuple, constants: tuple, found) -> None:
        """Recognise this call faster next time, unless as many others are recognised already."""
        self._misses += 1
        if len(self._recent) < recent.CAPACITY or self._misses % recent.PATIENCE == 0:
            new = recent.Recent.of(args, constants, self._constants, found)
            if new is not None:
                self._recent = (*self._recent[-recent.CAPACITY + 1 :], new)

    def _bind(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, tuple]:
        if len(args) == self._count and kwargs.keys() == self._names and all(type(v) is int for v in kwargs.values()):
            return args, tuple(kwargs.items())
        call = arguments.bind(self.definition, args, kwargs)
        return call.arguments, call.constants

    def _checked(self, args: tuple, kwargs: dict[str, Any]) -> tuple[Call, torch.device]:
        return arguments.check(self.definition, arguments.bind(self.definition, args, kwargs))

    def trace(self, args: tuple, kwargs: dict[str, Any], gpu=None) -> Variant:
        """The variant of a call, traced and not compiled; on no GPU, that of the PyTorch backend."""
        call, place = self._checked(args, kwargs)
        if gpu is None and place.type == "cuda":
            gpu = device.current(place)
        with self._lock:
            selection = self._variants.select(call, place, gpu)
        return variants.trace(self.definition, selection)

    def _prepare(self, given: Call) -> tuple[tuple, list, Any]:
        """What a hit would have found: checked arguments, their raw values, and the launch."""
        call, place = self._checked(given.arguments, dict(given.constants))
        signature, raw = _signature(call.arguments, given.constants, self._constants)
        with self._lock:
            found = self._prepared.get(signature)
            if found is None or _is_outdated(found):
                found = self._select(call, place)
                if len(self._prepared) >= CAPACITY:
                    # A new dictionary: other threads may be reading the old one.
                    self._prepared = dict(list(self._prepared.items())[CAPACITY // 2 :])
                self._prepared[signature] = found
        return call.arguments, raw, found

    def _select(self, call: Call, place: torch.device):
        gpu = device.current(place) if place.type == "cuda" else None
        selection = self._variants.select(call, place, gpu)
        if math.prod(selection.grid) == 0:
            return prepared.Nothing()
        kind = prepared.Evaluation if gpu is None else prepared.Launch
        variant = self._variants.get(selection, kind.compile)
        arguments.check_stored(self.definition, call, variant.stored)
        return kind.of(self.definition, variant, call, selection.values, place)


def _signature(args: tuple, constants: tuple, exact: tuple[int, ...]) -> tuple[tuple, list]:
    """All of a call that decides what is launched, and what is passed on for each argument: of a tensor its address.

    `exact` are the positions of compile-time values. Of a run-time number only the type and, for integers, the width
    count. What is neither a plain tensor nor a number is in no signature that is ever remembered.
    """
    key: list = [constants]
    raw: list = []
    for argument in args:
        kind = type(argument)
        if kind in _TENSORS:
            pointer = argument.data_ptr()
            key += (argument.dtype, argument.device, argument.shape, argument.stride(), pointer % ALIGNMENT == 0)
            raw.append(pointer)
        else:
            key.append(kind if kind is not int else int if -(2**31) <= argument < 2**31 else argument.bit_length())
            raw.append(argument)
    for index in exact:
        value = args[index]
        key.append((type(value), value.hex() if type(value) is float else value))
    return tuple(key), raw


def _is_outdated(prepared) -> bool:
    """Whether a launch was prepared under another precision of float32 products, where that matters."""
    return prepared.precision is not None and prepared.precision != torch._C._get_float32_matmul_precision()

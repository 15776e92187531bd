"""Dispatch a call of a kernel: from the arguments to a launch.

Two memories stand between them, both bounded. The call cache maps the exact signature of a call (types, shapes,
strides, alignment) to an executable: a hit costs a few microseconds. The variant cache maps the *class* of a call (its
`Specialisation`) to a compiled program: another batch size costs some arithmetic and no compilation.
"""

from __future__ import annotations

import functools
import math
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ninetoothed import ir
from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import ArgumentError, ResourceError, SizeError
from ninetoothed.runtime import arguments, executable, missing, variants
from ninetoothed.runtime.aliasing import check_memory
from ninetoothed.runtime.arguments import BoundCall
from ninetoothed.runtime.call_cache import CallCache, Entry
from ninetoothed.runtime.exemptions import Exemptions
from ninetoothed.runtime.gradients import warn_where_lost
from ninetoothed.runtime.launch_plan import RECORDER
from ninetoothed.runtime.private import hidden_from_dynamo
from ninetoothed.runtime.selection import machine, tuning
from ninetoothed.runtime.specialise_plan import SpecialisationPlan
from ninetoothed.runtime.variants import Selection, TracedVariant, Variant
from ninetoothed.schedule import Schedule

# How many schedules that spill registers are compiled before the best of them is taken.
MOST_SPILLING = 4


def program(kernel: Any, args: tuple, kwargs: dict[str, Any]) -> ir.Program:
    """Return the program that a call would run, traced."""
    return launcher_of(kernel).trace(args, kwargs).program


@hidden_from_dynamo
def launcher_of(kernel: Any) -> Launcher:
    """Return the launcher of a kernel (anything with a `definition`), which is made at its first call."""
    try:
        return kernel.__dict__["_launcher"]
    except KeyError:
        return kernel.__dict__.setdefault("_launcher", Launcher(kernel.definition))


def _was_found_by_tracing(error: ArgumentError) -> bool:
    """Tell whether tracing found an error: then it concerns parameters that the program touches."""
    return isinstance(error, SizeError) and error.requirement is not None


class Launcher:
    """Launch one kernel, and remember what its calls led to. Copies and pickles start with nothing remembered.

    On CUDA tensors the kernel is launched on their device, on its current stream, without a synchronisation; on other
    tensors the PyTorch backend runs it. Errors are raised before anything is launched: see `arguments`, `specialise`.

    is_partial: whether some parameters are absent. Then calls of no programs are traced, too: only tracing tells
        whether a variant touches them.
    """

    def __init__(self, definition: KernelDefinition, is_partial: bool = False):
        self.definition = definition
        self.plan = SpecialisationPlan(definition)
        self._count = len(definition.parameters)
        self._names = frozenset(definition.constexpr_symbols)
        self._constants = tuple(index for index, role in enumerate(self.plan.roles) if role == "constant")
        self._calls = CallCache(self._constants)
        # Caches of launch plans with launches of this kernel: forgotten when its calls lead elsewhere.
        self.dependants: weakref.WeakSet[CallCache] = weakref.WeakSet()
        self._variants = variants.VariantCache(self.plan)
        self._is_partial = is_partial
        self._exemptions = Exemptions(definition, functools.partial(Launcher, is_partial=True))
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Launcher, (self.definition,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Launcher:
        return Launcher(self.definition)

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The variants compiled so far."""
        return self._variants.all

    def ranked(self, selection: Selection) -> tuple[tuple[Schedule, ...], bool]:
        """Return the candidates for a selection's schedule, and whether it was chosen by measuring."""
        with self._lock:
            try:
                return self._variants.candidates(selection), self._variants.is_settled(selection)
            except KeyError:  # a launcher with absent parameters keeps its own
                return (selection.schedule,), False

    @hidden_from_dynamo
    def __call__(self, args: tuple, kwargs: dict[str, Any]) -> None:
        constants: tuple = ()
        call: BoundCall | None = None
        if kwargs or len(args) != self._count:
            if len(args) == self._count and self._are_plain(kwargs):
                constants = tuple(kwargs.items())
            else:
                call = arguments.bind(self.definition, args, kwargs)
                args, constants = call.arguments, call.constants
        recorder = RECORDER.get()
        if recorder is None:
            for fast_path in self._calls.recent:
                if fast_path(args, constants):
                    return
            if self._calls.again(args, constants):
                return
        known = self._calls.find(args, constants)
        given, is_new = args, not isinstance(known, Entry)
        if not isinstance(known, Entry):
            try:
                call = call or arguments.bind(self.definition, args, dict(constants))
                args, known = self._prepare(call, constants)
            except ArgumentError as error:
                if self._is_partial or _was_found_by_tracing(error):
                    raise
                keywords: dict[str, Any] = dict(constants)
                return self._exemptions.run(error, args, lambda launcher, rest: launcher(rest, keywords))
        check_memory(self.definition, args, known.found.separate)
        if recorder is not None:
            recorder.launched(self, known.found, given, args)
            with recorder.paused():
                known.run(args)
        else:
            if is_new or not known.has_all_fast_paths:
                warn_where_lost(self.definition, given)
            if not is_new:
                self._calls.add_fast_path(args, constants, known)
            known.run(args)

    def _are_plain(self, kwargs: dict[str, Any]) -> bool:
        """Tell whether keywords are exactly the constexpr symbols, with integers: such a call is looked up unbound."""
        return kwargs.keys() == self._names and all(type(value) is int for value in kwargs.values())

    def _checked(self, args: tuple, kwargs: dict[str, Any]) -> tuple[BoundCall, torch.device]:
        return arguments.check(self.definition, arguments.bind(self.definition, args, kwargs))

    def trace(self, args: tuple, kwargs: dict[str, Any], gpu: machine.Machine | None = None) -> TracedVariant:
        """Trace the variant of a call, for a GPU that need not be there.

        `gpu` None is the GPU that the tensors are on; for CPU tensors, the PyTorch backend.
        """
        given = arguments.bind(self.definition, args, kwargs)
        try:
            call, device = arguments.check(self.definition, given)
            if gpu is None and device.type == "cuda":
                gpu = machine.current(device)
            with self._lock:
                selection = self._variants.select(call, device, gpu)
        except ArgumentError as error:
            if self._is_partial:
                raise
            keywords = dict(given.constants)
            return self._exemptions.run(error, given.arguments, lambda other, rest: other.trace(rest, keywords, gpu))
        with self._lock:
            while True:
                try:
                    traced = variants.trace(self.definition, selection)
                except SizeError as error:
                    self._variants.learn(selection, error)
                else:
                    if executable.has_form(traced) or not self._variants.reject(selection):
                        return traced
                selection = self._variants.select(call, device, gpu)

    def _prepare(self, given: BoundCall, constants: tuple) -> tuple[tuple, Entry]:
        """Check the arguments, and find or make the entry of the call; `constants` are part of its key."""
        call, device = arguments.check(self.definition, given)
        with self._lock:
            known = self._calls.find(call.arguments, constants)
            if not isinstance(known, Entry):
                found = self._select(call, device)
                if self._variants.shrink():
                    self._forget()
                known = self._calls.keep(call.arguments, constants, found)
            return call.arguments, known

    def tune(self, args: tuple, kwargs: dict[str, Any]) -> Schedule:
        """Measure for calls like this, unless the result is on disk, and return the schedule that they get."""
        call, device = self._checked(args, kwargs)
        gpu = machine.current(device) if device.type == "cuda" else None
        with self._lock:
            if gpu is not None:
                tuning.tune(self.definition, self._variants, call, device, gpu)
                self._forget()
            return self._variants.select(call, device, gpu).schedule

    def _forget(self) -> None:
        """Forget what calls led to: their variants have changed, or are not remembered any more."""
        for calls in (self._calls, *self.dependants):
            calls.forget()

    def _select(self, call: BoundCall, device: torch.device) -> executable.Executable:
        """Select a variant for a checked call, and make its executable."""
        missing.tell_of_pytorch()
        gpu = machine.current(device) if device.type == "cuda" else None
        if gpu is not None and tuning.is_asked_for(self.definition):
            tuning.tune(self.definition, self._variants, call, device, gpu)
        form: Any = executable.CpuExecutable if gpu is None else executable.GpuExecutable
        selection = self._variants.select(call, device, gpu)
        if math.prod(selection.grid) == 0:
            if self._is_partial:
                variants.trace(self.definition, selection)
            return executable.EmptyExecutable()
        selection, variant = self._fitting(selection, lambda: self._variants.select(call, device, gpu), form)
        arguments.check_stored(self.definition, call, variant.stored)
        return form.of(self.definition, variant, call, selection.values, device)

    def _fitting(self, selection: Selection, select: Callable[[], Selection], form: Any) -> tuple[Selection, Variant]:
        """Get the variant of the best schedule that fits the GPU, of the first few if possible one without spills.

        select: makes the selection anew, after its schedule was rejected.
        """
        spilling: list[tuple[int, int, Selection, Variant]] = []
        while True:
            try:
                variant = self._variants.get(selection, form.compile)
            except SizeError as error:
                self._variants.learn(selection, error)
                selection = select()
                continue
            except ResourceError:
                if not self._variants.reject(selection):
                    raise
                selection = select()
                continue
            is_chosen = selection.gpu is None or self._variants.is_settled(selection)
            spills = 0 if is_chosen else variant.compiled.spills
            if spills <= selection.schedule.most_spilled:
                return selection, variant
            spilling.append((spills, len(spilling), selection, variant))
            if len(spilling) == MOST_SPILLING or not self._variants.reject(selection):
                _, _, selection, variant = min(spilling)
                self._variants.settle(selection, selection.schedule)
                return selection, variant
            selection = select()

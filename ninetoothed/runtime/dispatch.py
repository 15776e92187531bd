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
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from ninetoothed import ir
from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import AbsentError, ArgumentError, NineToothedError, UnsupportedError
from ninetoothed.runtime import arguments, executable, jagged, missing, variants
from ninetoothed.runtime.aliasing import check_memory
from ninetoothed.runtime.arguments import BoundCall
from ninetoothed.runtime.call_cache import FAST_PATHS, CallCache
from ninetoothed.runtime.fast_path import run
from ninetoothed.runtime.gradients import warn_where_lost
from ninetoothed.runtime.launch_plan import RECORDER
from ninetoothed.runtime.launch_steps import LaunchPlan
from ninetoothed.runtime.loading.served import served
from ninetoothed.runtime.private import hidden_from_dynamo
from ninetoothed.runtime.selection import machine, tuning
from ninetoothed.runtime.specialise_plan import SpecialisationPlan
from ninetoothed.runtime.variants import Selection, Variant
from ninetoothed.schedule import Schedule

_T = TypeVar("_T")


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


def launch_all(calls: Sequence[tuple[Any, tuple]]) -> None:
    """Launch kernels one after another, each with its arguments; those that are new on a GPU compile side by side."""
    new = [(launcher_of(kernel), args) for kernel, args in calls if not launcher_of(kernel).variants]
    device = next((each.device for _, args in new for each in args if isinstance(each, torch.Tensor)), None)
    is_compiled = len(new) > 1 and device is not None and device.type == "cuda" and not served().kernels
    failed: dict[Launcher, NineToothedError] = {}
    if is_compiled and (gpu := machine.current(device)) is not None:
        failed = compile_together(new, gpu)
    for kernel, args in calls:
        if (error := failed.get(launcher_of(kernel))) is not None:
            raise error
        kernel(*args)


def compile_together(calls: Sequence[tuple[Launcher, tuple]], gpu: machine.Machine) -> dict[Launcher, NineToothedError]:
    """Compile what calls are about to launch, each in a thread, and return the errors of those that cannot be.

    Any other exception is left to its call, which meets it again where no other thread is at work.
    """
    calls = [(launcher, args) for launcher, args in calls if not tuning.is_asked_for(launcher.definition)]
    with ThreadPoolExecutor(max(len(calls), 1)) as pool:
        tasks = {launcher: pool.submit(launcher.compile_ahead, args, gpu) for launcher, args in calls}
    errors = {launcher: task.exception() for launcher, task in tasks.items()}
    return {launcher: error for launcher, error in errors.items() if isinstance(error, NineToothedError)}


@dataclass(frozen=True)
class HostCall:
    """A call of CPU tensors: its program, with the arguments and the numbers of sizes and strides by name."""

    program: ir.Program
    arguments: Mapping[str, Any]
    integers: Mapping[str, int]


@dataclass(frozen=True)
class CompiledCall:
    """A call that was compiled and not launched: its variant, and all that decided on it."""

    plan: SpecialisationPlan
    call: BoundCall
    selection: Selection
    variant: Variant


class Launcher:
    """Launch one kernel, and remember what its calls led to. Copies and pickles start with nothing remembered.

    On CUDA tensors the kernel is launched on their device, on its current stream, without a synchronisation; on other
    tensors a host's backend runs it. Errors are raised before anything is launched: see `arguments`, `specialise`.
    """

    def __init__(self, definition: KernelDefinition):
        self.definition = definition
        self.plan = SpecialisationPlan(definition)
        self._plan_without = functools.lru_cache(maxsize=8)(self.plan.without)
        self._count = len(definition.parameters)
        values = [parameter.source.value for parameter in definition.parameters]
        # The values that a call may leave out, where they are the last ones.
        self._last = () if None in values[values.count(None) :] else tuple(values[values.count(None) :])
        self._names = frozenset(definition.constexpr_symbols)
        self._constants = tuple(index for index, role in enumerate(self.plan.roles) if role == "constant")
        self._calls = CallCache(self._constants)
        # Caches of launch plans with launches of this kernel: forgotten when its calls lead elsewhere.
        self.dependants: weakref.WeakSet[CallCache] = weakref.WeakSet()
        self._variants = variants.VariantCache()
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
            return selection.choices.candidates(selection.values), selection.choices.is_settled

    @hidden_from_dynamo
    def __call__(self, args: tuple, kwargs: dict[str, Any]) -> None:
        constants: tuple = ()
        call: BoundCall | None = None
        if kwargs or len(args) != self._count or self.definition.is_jagged:
            whole = args + self._last if len(args) + len(self._last) == self._count else args
            if len(whole) == self._count and self._are_plain(kwargs) and not self.definition.is_jagged:
                args, constants = whole, tuple(kwargs.items())
            else:
                call = jagged.bind(self.definition, args, kwargs)
                args, constants = call.arguments, call.constants
        recorder = RECORDER.get()
        if recorder is None:
            for fast_path in self._calls.recent:
                if fast_path(args, constants):
                    return
            if self._calls.again(args, constants):
                return
        known = self._calls.find(args, constants)
        given, is_new = args, not isinstance(known, LaunchPlan)
        if not isinstance(known, LaunchPlan):
            call = call or jagged.bind(self.definition, args, dict(constants))
            args, known = self._fitted(call, functools.partial(self._planned, constants))
        check_memory(known.definition, args, known.separate)
        if recorder is not None:
            recorder.launched(self, known, given, args)
            with recorder.paused():
                run(known, args)
        else:
            if is_new or known.fast_paths < FAST_PATHS:
                warn_where_lost(known.definition, given)
            if not is_new:
                self._calls.add_fast_path(args, constants, known)
            run(known, args)

    def _are_plain(self, kwargs: dict[str, Any]) -> bool:
        """Tell whether keywords are exactly the constexpr symbols, with integers: such a call is looked up unbound."""
        return kwargs.keys() == self._names and all(type(value) is int for value in kwargs.values())

    def _fitted(self, call: BoundCall, run: Callable[[SpecialisationPlan, BoundCall, torch.device], _T]) -> _T:
        """Run with a checked call, in which arguments that do not fit are absent; raise why where they are touched.

        if masked:                      kernel(x, torch.empty((), device="meta"), False, y)
            y = x * mask                `mask` is in no branch that is left: it may be on the meta device, or None
        else:
            y = x

        Where two arguments do not fit together, the later one is absent, or the other one where that is touched.
        """
        touched: set[str] = set()
        absent: set[str] = set()
        while True:
            plan = self._plan_without(frozenset(absent)) if absent else self.plan
            try:
                return run(plan, *arguments.check(plan.definition, call))
            except AbsentError as found:
                touched.add(found.parameter)
                absent = set()
            except ArgumentError as error:
                suspects = [p.name for p in plan.definition.parameters if p.touched and p.name in error.parameters]
                if touched.issuperset(suspects):
                    raise
                absent.add(next(name for name in reversed(suspects) if name not in touched))

    def trace(self, args: tuple, kwargs: dict[str, Any], gpu: machine.Machine | None = None) -> Variant:
        """Trace the variant of a call, for a GPU that need not be there.

        `gpu` None is the GPU that the tensors are on; for CPU tensors, the PyTorch backend.
        """

        def run(plan: SpecialisationPlan, call: BoundCall, device: torch.device) -> Variant:
            asked = gpu or (machine.current(device) if device.type == "cuda" else None)
            with self._lock:
                build = functools.partial(executable.traced, plan.definition)
                return self._variants.best(plan, call, device, asked, build)[1]

        return self._fitted(jagged.bind(self.definition, args, kwargs), run)

    def compile(self, args: tuple, kwargs: dict[str, Any], gpu: machine.Machine) -> CompiledCall:
        """Compile a call for a GPU that need not be there, and launch nothing. Addresses count, and no number is read.

        Raises `UnsupportedError` for a kernel of jagged tensors.
        """
        if self.definition.is_jagged:
            raise UnsupportedError(
                f"kernel `{self.definition.name}` takes jagged tensors, and cannot be built ahead of time yet; call it"
                " where it may be compiled"
            )

        def run(plan: SpecialisationPlan, call: BoundCall, device: torch.device) -> CompiledCall:
            place = device if device.type == "cuda" else torch.device("cuda", 0)
            with self._lock:
                build = functools.partial(self._variants.get, plan.definition, compile=executable.compiled)
                selection, variant = self._variants.best(plan, call, place, gpu, build)
            arguments.check_stored(plan.definition, call, variant.stored)
            return CompiledCall(plan, call, selection, variant)

        return self._fitted(jagged.bind(self.definition, args, kwargs), run)

    def compile_ahead(self, args: tuple, gpu: machine.Machine) -> None:
        """Compile what a call is about to launch, if anything. It loads nothing, so that any thread may do it."""

        def run(plan: SpecialisationPlan, call: BoundCall, device: torch.device) -> None:
            with self._lock:
                self._best(plan, call, device, gpu)

        self._fitted(jagged.bind(self.definition, args, {}), run)

    def host_call(self, args: tuple, kwargs: dict[str, Any]) -> HostCall:
        """Trace a call of CPU tensors, with its arguments and numbers by name: for those who run it themselves."""
        if self.definition.is_jagged:
            raise UnsupportedError(
                f"kernel `{self.definition.name}` takes jagged tensors, and cannot be run line by line yet; make it"
                " without `jagged_dim` for one entry, and run that"
            )

        def run(plan: SpecialisationPlan, call: BoundCall, device: torch.device) -> HostCall:
            with self._lock:
                build = functools.partial(executable.traced, plan.definition)
                selection, variant = self._variants.best(plan, call, device, None, build)
            names = (parameter.name for parameter in plan.definition.parameters)
            return HostCall(variant.program, dict(zip(names, call.arguments, strict=True)), selection.values)

        return self._fitted(jagged.bind(self.definition, args, kwargs), run)

    def tune(self, args: tuple, kwargs: dict[str, Any]) -> Schedule:
        """Measure for calls like this, unless the result is on disk, and return the schedule that they get."""

        def run(plan: SpecialisationPlan, call: BoundCall, device: torch.device) -> Schedule:
            gpu = machine.current(device) if device.type == "cuda" else None
            with self._lock:
                if gpu is not None:
                    tuning.tune(plan, self._variants, call, device, gpu)
                    self._forget()
                return self._variants.select(plan, call, device, gpu).schedule

        return self._fitted(jagged.bind(self.definition, args, kwargs), run)

    def _forget(self) -> None:
        """Forget what calls led to: their variants have changed, or are not remembered any more."""
        for calls in (self._calls, *self.dependants):
            calls.forget()

    def _planned(
        self, constants: tuple, plan: SpecialisationPlan, call: BoundCall, device: torch.device
    ) -> tuple[tuple, LaunchPlan]:
        """Find or make the plan of a checked call; `constants` are part of its key. Return the arguments, too."""
        with self._lock:
            known = self._calls.find(call.arguments, constants)
            if not isinstance(known, LaunchPlan):
                known = self._executable(plan, call, device)
                if self._variants.shrink():
                    self._forget()
                self._calls.keep(call.arguments, constants, known)
            return call.arguments, known

    def _executable(self, plan: SpecialisationPlan, call: BoundCall, device: torch.device) -> LaunchPlan:
        """Make the plan of a checked call."""
        missing.tell_of_pytorch()
        state = served()
        state.observe(plan.definition, call.arguments, dict(call.constants))
        if (built := state.plan(plan.definition, call, device)) is not None:
            return built
        gpu = machine.current(device) if device.type == "cuda" else None
        if gpu is not None and tuning.is_asked_for(plan.definition):
            tuning.tune(plan, self._variants, call, device, gpu)

        selection, variant = self._best(plan, call, device, gpu)
        if variant is None:
            return LaunchPlan(self._count, definition=plan.definition)
        arguments.check_stored(plan.definition, call, variant.stored)
        return executable.plan_of(plan.definition, variant, call, selection.values, device)

    def _best(
        self, plan: SpecialisationPlan, call: BoundCall, device: torch.device, gpu: machine.Machine | None
    ) -> tuple[Selection, Variant | None]:
        """Find or compile the variant of a checked call; None where it launches nothing."""

        def build(selection: Selection) -> Variant | None:
            if math.prod(selection.grid):
                return self._variants.get(plan.definition, selection, executable.compiled)
            if plan is not self.plan:  # Only tracing tells whether absent parameters are touched.
                variants.trace(plan.definition, selection)
            return None

        return self._variants.best(plan, call, device, gpu, build)

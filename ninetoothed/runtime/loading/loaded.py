"""Call kernels that were built ahead of time.

    built = ninetoothed.load("build")
    built.add(x, y, z)

A call like an earlier one goes the way of a compiled kernel's (`runtime.call_cache`, `runtime.fast_path`); a new one
finds its variant among those that were built.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ninetoothed.built import folder
from ninetoothed.built.description import BuiltArgument, BuiltVariant, arguments_of, as_written
from ninetoothed.built.folder import BuiltFolder
from ninetoothed.errors import ArgumentError, ArgumentTypeError, LoadError, shortens_tracebacks
from ninetoothed.free_names import FreeName
from ninetoothed.runtime.aliasing import check_memory
from ninetoothed.runtime.arguments import BoundCall, check_memory_of, check_stored, device_of as device_of_call
from ninetoothed.runtime.call_cache import CallCache
from ninetoothed.runtime.fast_path import run
from ninetoothed.runtime.launch_steps import LaunchPlan
from ninetoothed.runtime.launching.code import LoadedCode
from ninetoothed.runtime.loading import match, served
from ninetoothed.runtime.loading.device import Device, device_of, here
from ninetoothed.runtime.loading.plan import code_of, plan_of
from ninetoothed.runtime.private import as_plain, hidden_from_dynamo

_PLAIN = (torch.Tensor, torch.nn.Parameter)


class BuiltKernel:
    """A kernel that was built: call it with its tensors, and by keyword what chooses between configurations.

    For several threads and GPUs: each GPU gets machine code of its own when it is first launched there.
    """

    def __init__(self, name: str, built: BuiltFolder):
        self.__name__ = name
        self._folder = built
        self.variants = tuple(each for each in built.variants if each.kernel == name)
        self._arguments = arguments_of(self.variants)
        self._count = len(self._arguments)
        self.identity = self.variants[0].identity
        # The values of the arguments that a call may leave out, where they are the last ones.
        needed = [i for i, each in enumerate(self._arguments) if not each.optional]
        self._last = (
            tuple(each.value for each in self._arguments[len(needed) :]) if needed == [*range(len(needed))] else ()
        )
        roles = (any(each.arguments[i].role == "constant" for each in self.variants) for i in range(self._count))
        self._calls = CallCache(tuple(i for i, is_constant in enumerate(roles) if is_constant))
        self._code: dict[tuple[int, str], LoadedCode] = {}
        self._devices: dict[torch.device, Device] = {}
        self._lock = threading.RLock()

    @property
    def name(self) -> str:
        return self.__name__

    @property
    def parameters(self) -> tuple[BuiltArgument, ...]:
        """The parameters, by whose names errors tell of arguments."""
        return self._arguments

    @hidden_from_dynamo
    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Launch on the current stream of the tensors' device.

        Raises `ArgumentError` for calls of a class that was not built, `LoadError` where it was not built for this GPU
        or files are damaged. Nothing has been launched then.
        """
        if len(args) != self._count:
            if len(args) + len(self._last) == self._count and not kwargs:
                args += self._last
            else:
                args, kwargs = self._complete(args, kwargs)
        constants = tuple(kwargs.items()) if kwargs else ()
        for fast_path in self._calls.recent:
            if fast_path(args, constants):
                return
        if not self._calls.again(args, constants):
            self._new(args, constants)

    @shortens_tracebacks
    def _complete(self, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        """Give each parameter its argument, and return what is left of the keywords."""
        names = [each.name for each in self._arguments]
        own = {each.name: each.value for each in self._arguments if each.optional}
        given = {name: value for name, value in kwargs.items() if name in names}
        order = names if len(args) + len(given) >= len(names) else [name for name in names if name not in own]
        values = dict(zip(order, args, strict=False))
        merged = {**own, **values, **given}
        if len(args) > len(order) or values.keys() & given.keys() or merged.keys() != set(names):
            raise ArgumentTypeError(
                f"kernel `{self.__name__}` takes {', '.join(names)}; got {len(args)} by position"
                f" and {', '.join(kwargs) or 'none'} by keyword; give each once"
            )
        rest = {name: value for name, value in kwargs.items() if name not in names}
        return tuple(merged[name] for name in names), rest

    @shortens_tracebacks
    def _new(self, args: tuple, constants: tuple) -> None:
        for own, each in zip(self._arguments, args, strict=True):
            if isinstance(each, torch.Tensor):
                check_memory_of(self, own, each)
        if any(isinstance(each, torch.Tensor) and type(each) not in _PLAIN for each in args):
            args = tuple(as_plain(each) if isinstance(each, torch.Tensor) else each for each in args)
        known = self._calls.find(args, constants)
        if isinstance(known, LaunchPlan):
            check_memory(known.definition, args, known.separate)
            self._calls.add_fast_path(args, constants, known)
        else:
            known = self._planned(args, dict(constants))
            check_memory(known.definition, args, known.separate)
            self._calls.keep(args, constants, known)
        run(known, args)

    def _planned(self, arguments: tuple, kwargs: dict[str, Any]) -> LaunchPlan:
        symbols = {name for each in self.variants for name in each.constants}
        configured = {name for each in self.variants for name in each.parameters}
        unknown = sorted(kwargs.keys() - configured - symbols)
        if unknown:
            known = ", ".join(sorted(configured | symbols)) or "none"
            raise ArgumentTypeError(
                f"kernel `{self.__name__}` has no keyword {', '.join(unknown)}; it was built with {known}"
            )
        place = device_of_call(self, arguments)
        parameters = {name: kwargs[name] for name in kwargs.keys() & configured}
        call = BoundCall(arguments, tuple((name, kwargs[name]) for name in sorted(kwargs.keys() & symbols)))
        return self.plan(self, call, (), place, parameters)

    def plan(
        self,
        definition: Any,
        call: BoundCall,
        free_names: tuple[FreeName, ...],
        place: torch.device,
        parameters: Mapping[str, Any] | None = None,
    ) -> LaunchPlan:
        """Plan a call of checked arguments on a GPU; errors name the parameters of `definition`."""
        device, values = self._device(place), match.measured(call.arguments)
        variants = self._configured(self._runnable(device), parameters or {})
        fitting = match.fitting(variants, call, place, values)
        self._check_alone(fitting)
        variant = match.nearest(fitting, values)
        check_stored(definition, call, frozenset(e.name for e in variant.arguments if e.stored))
        code = functools.partial(self._loaded, variant, device)
        return replace(
            plan_of(variant, code, call.arguments, values, device, place), definition=definition, free_names=free_names
        )

    def _device(self, place: torch.device) -> Device:
        if place not in self._devices:
            self._devices[place] = device_of(place)
        return self._devices[place]

    def runnable(self, device: Device) -> tuple[BuiltVariant, ...]:
        """Return the variants that a GPU can run: those of its own architecture, else of an older one of its family."""
        own = [each for each in self.variants if each.architecture == device.architecture]
        family = [
            each
            for each in self.variants
            if each.architecture < 90
            and each.architecture // 10 == device.architecture // 10
            and each.architecture <= device.architecture
        ]
        return tuple(each for each in own or family if each.shared <= device.shared_memory)

    def _runnable(self, device: Device) -> tuple[BuiltVariant, ...]:
        found = self.runnable(device)
        if not found:
            built = ", ".join(sorted({f"{each.gpu} (sm_{each.architecture})" for each in self.variants}))
            raise LoadError(
                f"kernel `{self.__name__}` was built for {built}, and this is a {device.name}"
                f" (sm_{device.architecture}); build it for this GPU, too"
            )
        return found

    def _configured(self, variants: Sequence[BuiltVariant], parameters: Mapping[str, Any]) -> tuple[BuiltVariant, ...]:
        wanted = {name: as_written(value) for name, value in parameters.items()}
        found = tuple(
            each for each in variants if all(each.parameters.get(name, None) == value for name, value in wanted.items())
        )
        if not found:
            names = sorted(wanted)
            built = [str({name: each.parameters.get(name) for name in names}) for each in variants]
            raise ArgumentError(
                f"kernel `{self.__name__}` was built with {', '.join(dict.fromkeys(built))}, and the call gives"
                f" {wanted}; build it with that, too"
            )
        return found

    def _check_alone(self, fitting: Sequence[BuiltVariant]) -> None:
        """Raise where a call fits several configurations, and does not say which of them it means."""
        first, *others = (each.parameters for each in fitting)
        if names := [name for name, value in first.items() if any(each.get(name) != value for each in others)]:
            raise ArgumentTypeError(
                f"kernel `{self.__name__}` was built in several configurations that this call fits; say which:"
                f" {', '.join(f'{name}=...' for name in names)}"
            )

    def _loaded(self, variant: BuiltVariant, device: Device) -> LoadedCode:
        key = (device.index, variant.cubin)
        with self._lock:
            if key not in self._code:
                code = code_of(variant, self._folder.code(variant), self._folder.assembler)
                with device.made_current():
                    self._code[key] = LoadedCode.of(code, device.driver)
            return self._code[key]

    def __repr__(self) -> str:
        gpus = ", ".join(f"sm_{each}" for each in sorted({each.architecture for each in self.variants}))
        return f"<built kernel {self.__name__}({', '.join(each.name for each in self._arguments)}) for {gpus}>"


class Loaded:
    """The kernels of a folder, as attributes and by name."""

    def __init__(self, built: BuiltFolder):
        self.folder = built
        self.kernels = {name: BuiltKernel(name, built) for name in dict.fromkeys(v.kernel for v in built.variants)}

    def __getattr__(self, name: str) -> BuiltKernel:
        try:
            return self.__dict__["kernels"][name]
        except KeyError:
            raise AttributeError(
                f"{self.folder.path} has no kernel {name!r}; it has {', '.join(self.kernels)}"
            ) from None

    def serve(self, missing: str = "compile") -> None:
        """Let calls of kernels in this process, those of operators among them, find theirs here: nothing is traced.

        missing: "compile" for calls that were not built, with a line of the logger `ninetoothed`, or "refuse" for an
            error. It holds for all kernels of this process.

        Raises `LoadError` where it is refused and kernels were not built for the GPU that is current.
        """
        if missing not in ("compile", "refuse"):
            raise ArgumentError(f"`serve` is given missing={missing!r}; give 'compile' or 'refuse'")
        if missing == "refuse" and (device := here()) is not None:
            self._check(device)
        served.served().add(self, missing == "refuse")

    def _check(self, device: Device) -> None:
        """Raise `LoadError` where kernels have no machine code for a GPU: it names them all."""
        lacking = [name for name, kernel in self.kernels.items() if not kernel.runnable(device)]
        if lacking:
            raise LoadError(
                f"{self.folder.path} has kernels that were not built for the GPU here, a {device.name}"
                f" (sm_{device.architecture}): {', '.join(lacking)}; build them for this GPU, too"
            )

    def __getitem__(self, name: str) -> BuiltKernel:
        return self.kernels[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.kernels]

    def __repr__(self) -> str:
        return f"<built kernels {', '.join(self.kernels)} of {self.folder.path}>"


def load(path: Any) -> Loaded:
    """Load kernels that were built: read the manifest alone; machine code is loaded at the first launch of each.

    path: a folder, or a package of AOTInductor that carries one.
    """
    return Loaded(folder.load(Path(path)))

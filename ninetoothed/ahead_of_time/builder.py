"""Compile kernels ahead of time: for classes of calls and GPUs, on a machine that need not have any."""

from __future__ import annotations

import contextlib
import functools
import inspect
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from ninetoothed import distribution
from ninetoothed.ahead_of_time import c_source
from ninetoothed.ahead_of_time.carry import CarriedVariant, carried
from ninetoothed.ahead_of_time.samples import samples
from ninetoothed.built import folder
from ninetoothed.built.description import BuiltVariant, as_written
from ninetoothed.built.folder import BuiltFolder
from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import ArgumentError, LoadError, NineToothedError
from ninetoothed.runtime.compilation import assembler
from ninetoothed.runtime.dispatch import Launcher
from ninetoothed.runtime.estimates import Estimates
from ninetoothed.runtime.selection import machine
from ninetoothed.runtime.selection.choices import Selection
from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.selection.measuring import Clock, fastest

_GPUS = ("a100", "h100", "b200")


@dataclass(frozen=True)
class Request:
    """The request for a build; see `ninetoothed.build`. make: makes a kernel of what `premake` gives."""

    make: Callable[..., Any]
    premake: Callable[..., Any]
    configs: tuple[Any, ...]
    metas: frozenset[str]
    name: str
    machines: tuple[Machine, ...]
    calls: Any

    @property
    def digest(self) -> str:
        """Tell requests apart by what they are written with, less what functions refer to."""
        said = (self.configs, sorted(self.metas), self.name, self.machines, _text(self.premake), _text(self.calls))
        return folder.digest(repr((said, sorted(versions().items()))).encode())


def build(request: Request, path: Path, is_lazy: bool) -> BuiltFolder:
    """Build what is asked for into a folder, unless it is there already and that will do."""
    if is_lazy and (path / folder.MANIFEST).exists():
        with contextlib.suppress(LoadError):
            found = folder.load(path)
            if found.versions.get("request") == request.digest:
                return found
    made = tuple(_made(request))
    return write(path, request.name, made, {"request": request.digest})


def compiled(
    definition: KernelDefinition, calls: Iterable[Sequence[Any]], gpus: Sequence[Machine]
) -> Iterator[CarriedVariant]:
    """Compile calls of a kernel for GPUs."""
    given = list(calls)
    for gpu in gpus:
        yield from _variants([(definition, given)], gpu, {})


def build_kernel(definition: KernelDefinition, path: Any) -> BuiltFolder:
    """Build a kernel that was made, for the GPUs and calls that `ninetoothed.build` takes by default."""
    return write(Path(path), definition.name, tuple(compiled(definition, samples(definition), machines(None))))


def _text(value: Any) -> str:
    """Return the source of a function, the layout of a tensor, or how a value is shown."""
    if isinstance(value, torch.Tensor):
        return repr((value.dtype, value.shape, value.stride(), value.data_ptr() % 16))
    if isinstance(value, list | tuple):
        return repr([_text(each) for each in value])
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        return repr(value)


def _made(request: Request) -> Iterator[CarriedVariant]:
    """Compile all configurations for all GPUs."""
    found = [_configured(request, config) for config in request.configs]
    if not found:
        raise ArgumentError("`build` is given no configuration; give at least one, `((), {}, {})`")
    names = {name for _, values, _ in found for name in values}
    if unknown := sorted(request.metas - names):
        raise ArgumentError(f"`premake` has no parameter {', '.join(unknown)}; it has {', '.join(sorted(names))}")
    groups: dict[tuple, list[tuple[KernelDefinition, list[Sequence[Any]]]]] = {}
    for definition, values, (args, kwargs) in found:
        key = tuple((name, as_written(value)) for name, value in values.items() if name not in request.metas)
        given = request.calls(*args, **kwargs) if callable(request.calls) else request.calls
        groups.setdefault(key, []).append((definition, list(samples(definition) if given is None else given)))
    for key, kernels in groups.items():
        for gpu in request.machines:
            yield from _variants(kernels, gpu, dict(key))


def _configured(request: Request, config: Any) -> tuple[KernelDefinition, dict[str, Any], tuple]:
    """Make the kernel of a configuration; return the values of `premake`'s parameters, and how it was called."""
    try:
        args, kwargs, options = config
        bound = inspect.signature(request.premake).bind(*args, **kwargs)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"a configuration is `(args, kwargs, options)`, not {config!r}: {error}") from error
    bound.apply_defaults()
    kernel = request.make(*request.premake(*args, **kwargs), kernel_name=request.name, **options)
    return kernel.definition, dict(bound.arguments), (args, kwargs)


def machines(gpus: Iterable[str | Machine] | None) -> tuple[Machine, ...]:
    """Return the GPUs to build for: by their names, else the one that is there, else one of each generation."""
    if gpus is None:
        here = machine.current()
        return tuple(map(machine.named, _GPUS)) if here is None else (here,)
    return tuple(each if isinstance(each, Machine) else machine.named(each) for each in gpus)


def _variants(
    kernels: Sequence[tuple[KernelDefinition, list[Sequence[Any]]]], gpu: Machine, parameters: Mapping[str, Any]
) -> Iterator[CarriedVariant]:
    """Compile the calls of a configuration; of kernels that differ in speed alone, the fastest of each call."""
    launchers = [Launcher(definition) for definition, _ in kernels]
    for number, arguments in enumerate(kernels[0][1]):
        built = [
            launcher.compile(tuple(calls[number] if number < len(calls) else arguments), {}, gpu)
            for launcher, (_, calls) in zip(launchers, kernels, strict=True)
        ]
        best = built[0]
        if len(built) > 1:
            times = _measured(launchers, arguments, gpu) or [_time(each.selection, gpu) for each in built]
            best = built[times.index(min(times))]
        yield carried(best.plan, best.call, best.selection, best.variant, parameters)


def _measured(launchers: Sequence[Launcher], arguments: Sequence[Any], gpu: Machine) -> list[float] | None:
    """Measure a call of each kernel on the GPU that is here, on other tensors; None where it is another GPU."""
    if machine.current() != gpu:
        return None
    given = tuple(_on_gpu(each) if isinstance(each, torch.Tensor) and each.ndim else each for each in arguments)
    runs = {number: functools.partial(launcher, given, {}) for number, launcher in enumerate(launchers)}
    seconds = fastest(runs, Clock(gpu, lambda: None))
    return [seconds[number] for number in range(len(launchers))]


def _on_gpu(tensor: torch.Tensor) -> torch.Tensor:
    """Make a tensor of another's layout on the GPU, with numbers of some size."""
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cuda")
    return made.fill_(1)


def _time(selection: Selection, gpu: Machine) -> float:
    """Estimate the microseconds of a call."""
    try:
        estimate = Estimates(selection, gpu).of(selection.schedule)
    except NineToothedError:
        return float("inf")
    return float("inf") if estimate is None else estimate.time


def write(
    path: Path,
    name: str,
    made: Sequence[CarriedVariant],
    told: Mapping[str, str] | None = None,
    in_c: bool = True,
) -> BuiltFolder:
    """Write a folder, with the kernels in C, too: equal machine code is one file, and equal variants are one."""
    files: dict[str, bytes] = {}
    variants: dict[str, BuiltVariant] = {}
    for each in made:
        file = f"{each.variant.kernel}_sm{each.variant.architecture}_{folder.digest(each.code)[:16]}.cubin"
        files[file] = each.code
        variant = replace(each.variant, cubin=file)
        variants.setdefault(
            repr(replace(variant, schedule="", sample={k: n.bit_length() for k, n in variant.sample.items()})), variant
        )
    kept, found = tuple(variants.values()), {**versions(), **(told or {})}
    if in_c:
        header, source = c_source.written(name, kept, files, found["assembler"])
        files |= {f"{name}.h": header.encode(), f"{name}.c": source.encode()}
    return folder.write(path, name, kept, files, found)


def versions() -> dict[str, str]:
    """Tell with what is built."""
    found = {"ninetoothed": distribution.version() or "0+unknown", "torch": metadata.version("torch")}
    found |= {"triton": metadata.version("triton"), "python": platform.python_version()}
    return found | {"assembler": assembler.of_triton().name}

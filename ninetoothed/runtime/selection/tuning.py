"""Configurations chosen by measuring, when asked: the formula's pick against a few neighbours.

    candidates --shortlist--> at most 9 --compile, in threads--> those that fit and spill nothing
               --few launches each--> the two best --more launches--> one, kept on disk

`tune=True` of `make`, `NINETOOTHED_TUNE=1` and `ninetoothed.tune` ask; nothing else ever measures.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import os
import statistics
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import torch

from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import CompilationError, NineToothedError
from ninetoothed.runtime import arguments, executable, variants
from ninetoothed.runtime.arguments import BoundCall
from ninetoothed.runtime.build import disk_cache
from ninetoothed.runtime.fast_path import unguarded
from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.selection.problem import Configuration, within

# The formula's pick and its neighbours.
MOST = 9
# Launches of each candidate, and of each of the two best.
FEW, MANY = 5, 20
_WARPS = (1, 2, 4, 8, 16)
_OPTIONS = tuple(field.name for field in dataclasses.fields(Configuration) if field.name != "meta")


def is_asked_for(definition: KernelDefinition) -> bool:
    """Whether a kernel is to be tuned at its first call of each class."""
    return definition.tune or os.environ.get("NINETOOTHED_TUNE", "0") not in ("", "0")


def shortlist(definition: KernelDefinition, candidates: Sequence[Configuration]) -> tuple[Configuration, ...]:
    """What is measured, the formula's pick first: what it ranks next, then variations of the pick.

    At most 9, and at most `max_num_configs` of the kernel.
    """
    found = dict.fromkeys((*candidates[:MOST], *_neighbours(definition, candidates[0])))
    return tuple(found)[: max(1, min(MOST, definition.max_num_configs or MOST))]


def _neighbours(definition: KernelDefinition, pick: Configuration) -> Iterator[Configuration]:
    """One number of the pick changed at a time, within what the user allows."""
    for warps in definition.num_warps or (pick.num_warps * 2, pick.num_warps // 2):
        if warps in _WARPS:
            yield dataclasses.replace(pick, num_warps=warps)
    for name, block in pick.meta:
        for wanted in (block * 2, block // 2):
            value = within(definition.meta_symbols[name], max(wanted, 1))
            yield dataclasses.replace(pick, meta=tuple(sorted({**pick.blocks, name: value}.items())))
    for stages in definition.num_stages or (pick.num_stages + 1, pick.num_stages - 1):
        if stages >= 1:
            yield dataclasses.replace(pick, num_stages=stages)


def tune(
    definition: KernelDefinition, known: variants.VariantCache, call: BoundCall, place: torch.device, gpu: Machine
) -> None:
    """Settle the configuration of a call's class, by what is on disk or else by measuring on the call's arguments.

    Where a graph is being captured, or memory is short, it stays with the formula's.
    """
    selection = known.select(call, place, gpu)
    if known.is_settled(selection) or not math.prod(selection.grid) or torch.cuda.is_current_stream_capturing():
        return
    candidates = shortlist(definition, known.candidates(selection))
    pick = variants.trace(definition, known.select(call, place, gpu, candidates[0]))
    arguments.check_stored(definition, call, pick.stored)
    text = executable.emitted_for(definition, pick).source
    kept = record(definition, text, selection.family, gpu, candidates)
    described = {_describe(definition, each): each for each in candidates}
    best = kept.read(lambda result: described.get(result["configuration"]))
    if best is None:
        try:
            seconds = _measure(definition, known, call, place, gpu, candidates)
        except torch.OutOfMemoryError as error:
            warnings.warn(f"kernel `{definition.name}` was not tuned: {error}", stacklevel=2)
            return
        if not seconds:
            return  # Compiling the pick will say why.
        best = next(iter(seconds))
        spent = {_describe(definition, each): each_seconds for each, each_seconds in seconds.items()}
        kept.write({"configuration": _describe(definition, best), "seconds": spent})
    known.settle(selection, best)


def _measure(definition, known, call, place, gpu, candidates) -> dict[Configuration, float]:
    """Seconds by configuration, the best first; the best one's variant is remembered."""

    def compile(variant: variants.TracedVariant) -> variants.TracedVariant:
        return dataclasses.replace(variant, compiled=executable.GpuExecutable.compile(definition, variant))

    traced = list(_traced(definition, known, call, place, gpu, candidates))
    compiled = {variant.selection.configuration: variant for variant in compile_all(traced, compile)}
    runs = {}
    for configuration, variant in compiled.items():
        with suppress(CompilationError):
            launch = executable.GpuExecutable.of(definition, variant, call, variant.selection.values, place)
            runs[configuration] = functools.partial(unguarded(call.arguments, launch), call.arguments, ())
    stored = frozenset().union(*(variant.stored for variant in compiled.values()))
    written = [
        value
        for parameter, value in zip(definition.parameters, call.arguments, strict=True)
        if parameter.name in stored and isinstance(value, torch.Tensor)
    ]
    with torch.cuda.device(place), preserved(written) as restore:
        seconds = fastest(runs, Clock(gpu, restore))
    for best in list(seconds)[:1]:
        known.keep(compiled[best])
    return seconds


def _traced(definition, known, call, place, gpu, candidates) -> Iterator[variants.TracedVariant]:
    """Candidates as programs, less those whose blocks the kernel cannot have."""
    for candidate in candidates:
        with suppress(NineToothedError):
            yield variants.trace(definition, known.select(call, place, gpu, candidate))


# -- what is kept --


def record(
    definition: KernelDefinition, text: str, family: tuple, gpu: Machine, candidates: Sequence[Configuration]
) -> disk_cache.DiskRecord:
    """Where the result of tuning is kept.

    text: what the pick compiles to, which has all that the source, its helpers and this package say.
    family: the class of calls: types, layout and sizes rounded to powers of two.
    """
    specialisation, sizes = family[:2]
    key = {
        "source": hashlib.sha256(text.encode()).hexdigest(),
        "class": _plain(specialisation),
        "sizes": _plain(sizes),
        "gpu": _plain(gpu),
        "tools": _tools(),
        "candidates": [_describe(definition, each) for each in candidates],
    }
    return disk_cache.DiskRecord("tuned", definition.name, key)


def _plain(value: Any) -> Any:
    """A value in JSON, the same in every process."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, frozenset | set):
        return sorted(map(_plain, value))
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value if isinstance(value, bool | int | str | None) else repr(value)


@functools.cache
def _tools() -> Mapping[str, str]:
    import triton
    from triton import knobs

    return {"triton": triton.__version__, "ptxas": knobs.nvidia.ptxas.version}


def _describe(definition: KernelDefinition, configuration: Configuration) -> str:
    """A configuration without the names of block sizes, which are numbered anew in each process."""
    blocks = [configuration.blocks[name] for name in definition.meta_symbols]
    others = {field: getattr(configuration, field) for field in _OPTIONS}
    return ", ".join([f"blocks={blocks}", *(f"{name}={value}" for name, value in others.items())])


# -- measuring --


def compile_all(candidates: Sequence[Any], compile: Callable[[Any], Any]) -> list[Any]:
    """What `compile` makes of candidates, in threads, less those that cannot be compiled and those that spill.

    Where all spill, those that spill least are left.
    """

    def attempt(candidate):
        try:
            made = compile(candidate)
            return made, made.compiled.spills
        except CompilationError:
            return None

    with ThreadPoolExecutor(min(len(candidates), os.cpu_count() or 1)) as pool:
        made = [result for result in pool.map(attempt, candidates) if result is not None]
    least = min((spills for _, spills in made), default=0)
    return [variant for variant, spills in made if spills == least]


def fastest(runs: Mapping[Any, Callable[[], None]], clock: Callable[[Callable[[], None], int], float]) -> dict:
    """Seconds by candidate, the best first; `clock(run, repetitions)` measures. The two best are measured again."""
    rough = {candidate: clock(run, FEW) for candidate, run in runs.items()}
    best = sorted(rough, key=rough.__getitem__)[:2]
    again = {candidate: clock(runs[candidate], MANY) for candidate in best} if len(best) > 1 else {}
    seconds = {**rough, **again}
    return {candidate: seconds[candidate] for candidate in sorted(seconds, key=lambda c: (c not in best, seconds[c]))}


@contextmanager
def preserved(tensors: Sequence[torch.Tensor]) -> Iterator[Callable[[], None]]:
    """Gives a function that puts tensors back as they were, which is done at the end, too.

    Autograd sees none of it: what was saved for a backward pass is as it was.
    """
    with torch.inference_mode():
        kept = [(tensor.data, tensor.clone()) for tensor in tensors]

    def restore():
        with torch.inference_mode():
            for tensor, value in kept:
                tensor.copy_(value)

    try:
        yield restore
    finally:
        restore()


class Clock:
    """Measures launches on the current stream of the current GPU, the L2 cache emptied before each."""

    def __init__(self, gpu: Machine, before: Callable[[], None]):
        self._before = before
        self._flushed = torch.empty(2 * gpu.l2, dtype=torch.int8, device="cuda")

    def __call__(self, run: Callable[[], None], repetitions: int) -> float:
        """The median of the seconds that a launch takes."""
        self._before()
        run()  # loads the kernel
        spans = []
        for _ in range(repetitions):
            self._before()
            self._flushed.zero_()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run()
            end.record()
            spans.append((start, end))
        spans[-1][1].synchronize()
        return statistics.median(start.elapsed_time(end) for start, end in spans) / 1000

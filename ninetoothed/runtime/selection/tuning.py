"""Choose schedules by measuring, when asked: the formula's pick against a few neighbours.

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
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch

from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import CompilationError, NineToothedError
from ninetoothed.runtime import arguments, executable, variants
from ninetoothed.runtime.arguments import BoundCall
from ninetoothed.runtime.compilation import assembler, disk_cache
from ninetoothed.runtime.fast_path import unguarded
from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.selection.measuring import Clock, compile_all, fastest, preserved
from ninetoothed.runtime.sizes import within
from ninetoothed.runtime.specialise_plan import SpecialisationPlan
from ninetoothed.schedule import Schedule

# The formula's pick and its neighbours.
MOST = 9
_WARPS = (1, 2, 4, 8, 16)


def is_asked_for(definition: KernelDefinition) -> bool:
    """Tell whether a kernel is to be tuned at its first call of each class."""
    return definition.tune or os.environ.get("NINETOOTHED_TUNE", "0") not in ("", "0")


def shortlist(definition: KernelDefinition, candidates: Sequence[Schedule]) -> tuple[Schedule, ...]:
    """Return the schedules to measure: the formula's pick, those that it ranks next, then variations of the pick.

    At most 9, and at most `max_num_configs` of the kernel.
    """
    found = dict.fromkeys((*candidates[:MOST], *_neighbours(definition, candidates[0])))
    return tuple(found)[: max(1, min(MOST, definition.max_num_configs or MOST))]


def _neighbours(definition: KernelDefinition, pick: Schedule) -> Iterator[Schedule]:
    """Yield the pick with one number changed at a time, within what the user allows."""
    for warps in definition.num_warps or (pick.num_warps * 2, pick.num_warps // 2):
        if warps in _WARPS:
            yield dataclasses.replace(pick, num_warps=warps)
    for name, block in pick.meta:
        for wanted in (block * 2, block // 2):
            value = within(definition.meta_symbols[name], max(wanted, 1))
            yield dataclasses.replace(pick, meta=tuple({**pick.blocks, name: value}.items()))
    for stages in definition.num_stages or (pick.num_stages + 1, pick.num_stages - 1):
        if stages >= 1:
            yield dataclasses.replace(pick, num_stages=stages)


def tune(
    plan: SpecialisationPlan, known: variants.VariantCache, call: BoundCall, place: torch.device, gpu: Machine
) -> None:
    """Settle the schedule of a call's class: by the record on disk, or else by measuring on the call's arguments.

    Where a graph is being captured, or memory is short, it stays with the formula's.
    """
    definition, select = plan.definition, functools.partial(known.select, plan, call, place, gpu)
    selection = select()
    if selection.choices.is_settled or not math.prod(selection.grid) or torch.cuda.is_current_stream_capturing():
        return
    selection, pick = known.best(plan, call, place, gpu, functools.partial(executable.traced, definition))
    candidates = shortlist(definition, selection.choices.candidates(selection.values))
    arguments.check_stored(definition, call, pick.stored)
    text = executable.emitted_for(pick).source
    kept = record(definition, text, selection.choices.key, gpu, candidates)
    described = {_describe(definition, each): each for each in candidates}
    best = kept.read(lambda result: described.get(result["schedule"]))
    if best is None:
        count = len(candidates)
        print(f"{definition.name}: compiling and measuring {count} schedules, once on this machine", file=sys.stderr)
        try:
            seconds = _measure(definition, known, call, place, gpu, select, candidates)
        except torch.OutOfMemoryError as error:
            warnings.warn(f"kernel `{definition.name}` was not tuned: {error}", stacklevel=2)
            return
        if not seconds:
            return  # Compiling the pick will say why.
        best = next(iter(seconds))
        spent = {_describe(definition, each): each_seconds for each, each_seconds in seconds.items()}
        kept.write({"schedule": _describe(definition, best), "seconds": spent})
    selection.choices.settle(best)


def _measure(
    definition: KernelDefinition,
    known: variants.VariantCache,
    call: BoundCall,
    place: torch.device,
    gpu: Machine,
    select: Callable[[Schedule], variants.Selection],
    candidates: Sequence[Schedule],
) -> dict[Schedule, float]:
    """Return the seconds of each schedule, the best first; the best one's variant is remembered."""

    def compile(variant: variants.Variant) -> variants.Variant:
        return dataclasses.replace(variant, compiled=executable.compile_for_gpu(definition, variant))

    traced = []
    for candidate in candidates:
        with suppress(NineToothedError):  # such blocks the kernel cannot have
            traced.append(variants.trace(definition, select(candidate)))
    compiled = {variant.selection.schedule: variant for variant in compile_all(traced, compile)}
    runs = {}
    for schedule, variant in compiled.items():
        with suppress(CompilationError):
            launch = executable.plan_of(definition, variant, call, variant.selection.values, place)
            runs[schedule] = functools.partial(unguarded(launch), call.arguments, ())
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


# -- what is kept --


def record(
    definition: KernelDefinition, text: str, choices: tuple, gpu: Machine, candidates: Sequence[Schedule]
) -> disk_cache.DiskRecord:
    """Return the record on disk in which the result of tuning is kept.

    text: what the pick compiles to, which has all that the source, its helpers and this package say.
    choices: the key of those of the class of calls: types, layout and sizes rounded to powers of two.
    """
    specialisation, sizes = choices[:2]
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
    """Convert a value to JSON, the same in every process."""
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

    return {"triton": triton.__version__, "ptxas": ".".join(map(str, assembler.of_triton().version))}


def _describe(definition: KernelDefinition, schedule: Schedule) -> str:
    """Describe a schedule, the same in every process: names of block sizes are numbered anew in each."""
    blocks = [schedule.blocks[name] for name in definition.meta_symbols]
    others = {field.name: _plain(getattr(schedule, field.name)) for field in dataclasses.fields(schedule)[1:]}
    return ", ".join([f"blocks={blocks}", *(f"{name}={value}" for name, value in others.items())])

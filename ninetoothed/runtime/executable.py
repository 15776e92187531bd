"""Compile variants, and plan what calls of one exact signature do with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import methodcaller
from typing import Any

import torch

from ninetoothed import passes
from ninetoothed.backends import gluon, triton
from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import CompilationError, ResourceError
from ninetoothed.passes import Target
from ninetoothed.passes.report import dump
from ninetoothed.runtime.aliasing import pairs
from ninetoothed.runtime.arguments import BoundCall, is_read_by_host
from ninetoothed.runtime.compilation import assembler
from ninetoothed.runtime.compilation.compile import CompiledKernel, UnsoundCodeError, compile_kernel
from ninetoothed.runtime.compilation.gluon import what_lacks
from ninetoothed.runtime.compilation.target import has_descriptors, target_of
from ninetoothed.runtime.hosts import Run, host_of
from ninetoothed.runtime.launch_steps import Launch, LaunchPlan, Scalar, TensorAddress
from ninetoothed.runtime.launching.descriptors import DescriptorTable
from ninetoothed.runtime.missing import tell
from ninetoothed.runtime.selection.problem import COARSENED_WARPS, aligned_tensors
from ninetoothed.runtime.variants import Selection, Variant, trace
from ninetoothed.runtime.workspace import workspace_of
from ninetoothed.schedule import DataParallel, Persistent, Schedule, Sharing, SplitK, StreamK

NOT_OVERLAPPED = "its products do not overlap with what lies between them"
NO_ROUNDS = f"{NOT_OVERLAPPED}: no loop has two, with right operands that are loaded as they are"


def compiled(definition: KernelDefinition, variant: Variant) -> Any:
    """Compile a variant for the place that it was selected for."""
    return (compile_for_gpu if variant.selection.gpu else prepare_for_host)(definition, variant)


def prepare_for_host(definition: KernelDefinition, variant: Variant) -> Run:
    """Prepare a variant, which may be one for a GPU, for a host."""
    return (variant.selection.host or host_of("cpu")).prepare(variant.program)


def compile_for_gpu(definition: KernelDefinition, variant: Variant) -> CompiledKernel:
    """Compile a variant for its GPU, which need not be there. Errors: see `compile_kernel`.

    Raises `ResourceError` where products cannot overlap as the schedule asks: another schedule is tried then.
    """
    schedule, target = schedule_of(variant), target_of(variant.selection.gpu)
    try:
        return _compiled(definition, variant, schedule, target)
    except CompilationError as error:
        if schedule.overlaps:
            if not isinstance(error, ResourceError):
                tell(f"{error}: it is compiled without products that overlap, and takes longer")
            raise ResourceError(f"kernel `{definition.name}` cannot have {schedule}\n{error}") from error
        if not isinstance(error, UnsoundCodeError):
            raise
        tell(f"{error}: it is compiled without Hopper's products (wgmma), and takes longer; {assembler.CURE}")
        # Ampere's instructions lose no registers. It had no copy engine.
        return _compiled(definition, variant, schedule, replace(target, has_tma=False), uses_wgmma=False)


def plan_of(
    definition: KernelDefinition, variant: Variant, call: BoundCall, integers: Mapping[str, int], device: torch.device
) -> LaunchPlan:
    """Plan calls of a kernel that are like one. integers: its sizes, strides and blocks by name."""
    on_gpu = device.type == "cuda"
    return LaunchPlan(
        len(call.arguments),
        (launch_of(definition, variant, call, integers, device) if on_gpu else run_of(definition, variant, integers),),
        precision=variant.precision,
        device=device.index if on_gpu else None,
        free_names=variant.program.free_names,
        definition=definition,
        separate=pairs(definition, variant, integers),
    )


def launch_of(definition: KernelDefinition, variant: Variant, call: BoundCall, integers: Mapping, device) -> Launch:
    """Plan the launch of a compiled variant on a GPU."""
    emitted = variant.compiled.emitted
    given: dict[str, Any] = {}
    for i, (parameter, value) in enumerate(zip(definition.parameters, call.arguments, strict=True)):
        is_read = is_read_by_host(value, device)
        given[parameter.name] = (
            Scalar(i, is_read) if is_read or not isinstance(value, torch.Tensor) else TensorAddress(i)
        )
    own = {each.name for each in emitted.buffers}
    outer = [each for each in emitted.arguments if each.source not in own]
    with torch.cuda.device(device):
        kernel = variant.compiled.on(device.index)
    number = methodcaller("evaluate", integers)
    shapes = tuple(([*map(number, each.sizes)], [*map(number, each.strides)]) for each in emitted.descriptors)
    return Launch(
        kernel,
        emitted.programs(integers, variant.selection.schedule.programs),
        tuple(integers[each.source] if each.role == "integer" else given[each.source] for each in outer),
        DescriptorTable(kernel.encode, shapes) if shapes else None,
        workspace_of(emitted, integers, device),
    )


def run_of(definition: KernelDefinition, variant: Variant, integers: Mapping[str, int]) -> Callable[[tuple], None]:
    """Return the function that runs a prepared variant on a host, with a call's arguments."""
    names, prepared = [parameter.name for parameter in definition.parameters], variant.compiled

    def run(args: tuple) -> None:
        # As for a kernel on a GPU, autograd neither sees what is written nor forbids it.
        with torch.inference_mode():
            values = (value.detach() if isinstance(value, torch.Tensor) else value for value in args)
            prepared(dict(zip(names, values, strict=True)), integers)

    return run


def _compiled(
    definition: KernelDefinition, variant: Variant, schedule: Schedule, target: Target, uses_wgmma: bool = True
) -> CompiledKernel:
    gpu = variant.selection.gpu
    assert gpu is not None
    lowered = _lowered(variant, schedule, target)
    emitted, applied = lowered.emitted, lowered.schedule
    if schedule.overlaps and not applied.overlaps:
        raise ResourceError(lowered.not_overlapped)
    aligned = aligned_tensors(definition, variant.selection.specialisation) | {each.name for each in emitted.buffers}
    return compile_kernel(emitted, gpu, applied.num_warps, applied.num_stages, aligned, uses_wgmma)


@dataclass(frozen=True)
class LoweredVariant:
    """A variant after the passes, as a text; `schedule` is what these have made of the one that was chosen."""

    emitted: triton.Emitted
    schedule: Schedule
    reports: tuple[passes.PassReport, ...]
    not_overlapped: str = NO_ROUNDS


def lowered(variant: Variant) -> LoweredVariant:
    """Lower a variant to the text for its own GPU."""
    return _lowered(variant, schedule_of(variant), target_of(variant.selection.gpu))


def emitted_for(variant: Variant) -> triton.Emitted:
    """Emit the text of a variant for its own GPU."""
    return lowered(variant).emitted


def traced(definition: KernelDefinition, selection: Selection) -> Variant:
    """Trace a variant. Raises `ResourceError` where its products do not overlap as its schedule asks."""
    variant = trace(definition, selection)
    if (reason := why_no_form(variant)) is not None:
        raise ResourceError(reason)
    return variant


def why_no_form(variant: Variant) -> str | None:
    """Say why a variant's products do not overlap where its schedule asks for it; None where they do."""
    found = lowered(variant) if variant.selection.schedule.overlaps else None
    return None if found is None or found.schedule.overlaps else found.not_overlapped


def _lowered(variant: Variant, schedule: Schedule, target: Target) -> LoweredVariant:
    """Apply the passes for GPUs and print: in Gluon where products overlap, in Triton where that has no such form."""
    given = variant.program.parameters
    scheduled = passes.run(variant.program, target, schedule, passes.GPU)
    if scheduled.is_overlapped:
        emitted = gluon.print_kernel(scheduled, given, schedule, target)
        emitted = emitted if isinstance(emitted, str) else what_lacks(emitted.source) or emitted
    else:
        emitted = triton.print_kernel(scheduled, given, target)
    if isinstance(emitted, str):
        plain = _lowered(variant, replace(schedule, overlaps=False), target)
        return replace(plain, not_overlapped=f"{NOT_OVERLAPPED}: {emitted}")
    reports = (passes.PassReport("before", True, variant.program), *scheduled.reports)
    dump(f"kernel {variant.program.name}: the passes for {variant.selection.gpu}", reports)
    return LoweredVariant(emitted, _applied(schedule, scheduled, emitted), scheduled.reports)


def _applied(schedule: Schedule, scheduled: passes.ScheduledProgram, emitted: triton.Emitted) -> Schedule:
    """Return a schedule as far as the passes could apply it."""
    applied = {report.name for report in scheduled.reports if report.applied}
    sharing: Sharing = DataParallel(scheduled.coarsening)
    match schedule.sharing:
        case Persistent() if "persistent" in applied:
            sharing = schedule.sharing
        case SplitK() if "split_k" in applied:
            sharing = schedule.sharing
        case StreamK() as shared if "remainder_subtile" in applied or "stream_k" in applied:
            sharing = shared if "remainder_subtile" in applied else replace(shared, subtile_stages=0)
    warps = COARSENED_WARPS if scheduled.coarsening > 1 else schedule.num_warps
    return replace(schedule, sharing=sharing, num_warps=warps, overlaps=emitted.dialect == "gluon")


def schedule_of(variant: Variant) -> Schedule:
    """Return the schedule of a variant, as far as its grid and this Triton allow."""
    schedule = replace(variant.selection.schedule, multi_axis_grid=variant.selection.specialisation.spread)
    return schedule if has_descriptors() else replace(schedule, use_tma=frozenset())

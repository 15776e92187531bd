"""Ask which passes change a program, how its work is shared out, and which fallbacks and formulas it takes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .watch import Watch


class Census:
    """Ask `applied` and `offered`: the names of what applies to a call, and of all passes that it went through."""

    def __init__(self) -> None:
        self.watch = Watch()

    def __call__(
        self, kernel: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], gpu: str | None
    ) -> dict[str, Any]:
        from ninetoothed.runtime import dispatch, executable
        from ninetoothed.runtime.selection import machine

        with self.watch.noting() as noted:
            launcher = dispatch.launcher_of(kernel)
            variant = launcher.trace(args, dict(kwargs), None if gpu is None else machine.named(gpu))
            passes = list(_passes(variant.reports, "every backend"))
            features: set[str] = set()
            if gpu is not None:
                lowered = executable.lowered(variant)
                # The passes for GPUs begin with what those for every backend have left.
                passes += _passes((variant.reports[-1], *lowered.reports), "GPUs")
                features = set(_features(variant, lowered))
        changed = {name for name, is_changed in passes if is_changed}
        return {"applied": sorted({*changed, *features, *noted}), "offered": [name for name, _ in passes]}


def _passes(reports: Iterable[Any], stage: str) -> Iterator[tuple[str, bool]]:
    """Yield each pass, and whether it changed the program's text."""
    from ninetoothed.passes.report import texts

    reports = tuple(reports)
    different = [reports[0]]
    different += [each for before, each in itertools.pairwise(reports) if each.program is not before.program]
    printed = iter(texts(different))
    text = next(printed)
    for before, report in itertools.pairwise(reports):
        # One that leaves the program as it is may have decided how it is printed.
        is_changed = report.applied
        if report.program is not before.program:
            last, text = text, next(printed)
            is_changed = text != last
        yield f"pass: {report.name} ({stage})", is_changed


def _features(variant: Any, lowered: Any) -> Iterator[str]:
    """Yield in words how the work is shared out, as asked for and as applied."""
    chosen, applied, emitted = variant.selection.schedule, lowered.schedule, lowered.emitted
    specialisation = variant.selection.specialisation
    yield f"schedule: {_sharing(applied)}"
    if _sharing(chosen) != _sharing(applied):
        yield f"fallback: asked for {_sharing(chosen)}, got {_sharing(applied)}"
    if applied.overlaps:
        yield "schedule: overlaps"
    yield f"schedule: printed in {emitted.dialect}"
    described = {argument.source for argument in emitted.arguments if argument.role == "descriptor"}
    if described:
        yield "schedule: tiles by descriptors"
    if chosen.use_tma - described:
        yield "fallback: a descriptor that was asked for is not used"
    if len(emitted.grid) > 1:
        yield "schedule: a grid of several axes"
    if emitted.buffers:
        yield "schedule: a workspace"
    if not specialisation.spread:
        yield "fallback: a grid too large for axes"
    for words, is_so in (
        ("64-bit offsets", any(argument.wide for argument in specialisation.arguments)),
        ("an unaligned tensor", not all(argument.aligned for argument in specialisation.arguments)),
        (
            "parameters of which some are absent",
            any(argument.role == "absent" for argument in specialisation.arguments),
        ),
        ("grids that differ", not specialisation.shared_grid),
    ):
        if is_so:
            yield f"class: {words}"


def _sharing(schedule: Any) -> str:
    sharing = schedule.sharing
    name = type(sharing).__name__
    if getattr(sharing, "coarsening", 1) > 1:
        return f"{name}, coarsened"
    return f"{name} with subtiles" if getattr(sharing, "subtile_stages", 0) else name

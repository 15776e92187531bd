"""Summarise how a call is compiled, for users: what was chosen and what else, guards, and what the code takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ninetoothed import ir
from ninetoothed.runtime.compilation.compile import CompiledKernel
from ninetoothed.runtime.estimates import Estimate, Estimates, microseconds
from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.selection.pattern import AttentionPattern, pattern_of
from ninetoothed.runtime.variants import Selection
from ninetoothed.schedule import Schedule
from ninetoothed.wording import reworded


def lines(launcher: Any, selection: Selection, applied: Schedule, program: ir.Program, gpu: Machine) -> Iterator[str]:
    """Yield the lines of a summary."""
    ranked, is_measured = launcher.ranked(selection)
    chosen, estimates = selection.schedule, Estimates(selection, gpu)
    others = [each for each in ranked if each != chosen][:2]
    found = [estimates.of(each) for each in (chosen, *others)]
    rows = [("", "configuration", "estimate", "bound by", "loses")]
    for title, schedule, estimate in zip(("chosen", "next", "next"), (applied, *others), found, strict=False):
        rows.append((title, str(schedule), *_told(estimate, found[0])))
    names = launcher.definition.given_names
    told = [tuple(reworded(cell, names) for cell in row) for row in rows]
    widths = [max(len(row[column]) for row in told) for column in range(5)]
    for row in told:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
    how = "measuring chose it" if is_measured else _ranking(launcher.definition, selection, gpu)
    why = f"{how} of {len(ranked)} that fit" if others else "it is the only one that fits"
    yield f"why: {why}; grid {' x '.join(map(str, selection.grid)) or 'one'}"
    for schedule, reason in selection.choices.rejected.items():
        yield reworded(f"not {schedule}: {reason.splitlines()[0]}", names)
    if others and not all(each is not None and each.costs for each in found):
        yield "estimates: counted from each program; the order is that of the line above, and they decide nothing"
    moving = microseconds(estimates.roofline().moving)
    yield f"memory: the tensors take {moving} to move once, at its bandwidth"
    yield from _guards(program)
    yield _taken(launcher, selection)


def _told(estimate: Estimate | None, first: Estimate | None) -> tuple[str, str, str]:
    """Tell an estimate, what bounds it, and what it loses on the first."""
    if estimate is None:
        return "does not fit", "-", "-"
    is_compared = first is not None and first is not estimate and first.costs == estimate.costs
    loses = f"{100 * (estimate.time / first.time - 1):.1f} %" if first is not None and is_compared else "-"
    return str(estimate), estimate.bound_by, loses


def _ranking(definition: Any, selection: Selection, gpu: Machine) -> str:
    """Tell which rule ranks the schedule first."""
    if isinstance(pattern_of(definition, selection.specialisation), AttentionPattern):
        return "the rules for attention, timed on an H200, rank it first"
    return f"the formula for the {gpu.name} ranks it first"


def _guards(program: ir.Program) -> Iterator[str]:
    """Yield the guards that are left, each once."""
    found: dict[str, None] = {}
    for operation in ir.walk(program.body):
        if isinstance(operation, ir.Load | ir.Store):
            for guard in operation.access.guards:
                index, low, high = guard.range
                told = " and ".join(
                    [
                        *([f"{index} >= {low}"] if low is not None else []),
                        *([f"{index} <= {high}"] if high is not None else []),
                    ]
                )
                found[f"guard of {operation.access.parameter}: {told}, which its sizes do not prove"] = None
    yield from found or ["guards: none, sizes and blocks prove all accesses to be in bounds"]


def _taken(launcher: Any, selection: Selection) -> str:
    for variant in launcher.variants:
        same = variant.selection.schedule == selection.schedule and isinstance(variant.compiled, CompiledKernel)
        if same and variant.selection.specialisation == selection.specialisation:
            code = variant.compiled
            return f"compiled: {code.registers} registers a thread, {code.shared} bytes shared, {code.spills} spilled"
    return "compiled: not yet; registers, shared memory and spills are told once it is"

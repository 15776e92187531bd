"""Report what each pass did to a program, as text: for `NINETOOTHED_DUMP=passes` and `kernel.explain`."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable, Iterator

from ninetoothed.ir import Value
from ninetoothed.ir.printer import print_program
from ninetoothed.passes.scheduled import PassReport
from ninetoothed.wording import counted

_CONTEXT = 2  # unchanged lines around a change


def show(reports: Iterable[PassReport], longest: int | None = None, all_passes: bool = True) -> str:
    """Return a line for each pass, the program before them, and what each pass that applied made of it.

    The first report is the program before. A change is shown as a difference, or as the whole program where that is
    shorter, and left out where it has more than `longest` lines. all_passes: whether those that did not apply are
    listed, too.
    """
    outcomes, changes = [], []
    for report, outcome, change in _described(reports):
        if not report.applied and not all_passes:
            continue
        outcomes.append(f"{report.name:<22}{outcome}")
        if longest is not None and len(change) > longest and len(outcomes) > 1:
            change = [f"({len(change)} lines; NINETOOTHED_DUMP=passes prints them)"]
        changes += ["", f"== {report.name}: {outcome} ==", "", *change] if change else []
    return "\n".join((*outcomes, *changes)) + "\n"


def dump(title: str, reports: Iterable[PassReport]) -> None:
    """Print what passes did to a program to stderr, where that is asked for: `NINETOOTHED_DUMP=passes`."""
    if "passes" in os.environ.get("NINETOOTHED_DUMP", "").split(","):
        print(f"# {title}\n\n{show(reports)}", file=sys.stderr)


def _described(reports: Iterable[PassReport]) -> Iterator[tuple[PassReport, str, list[str]]]:
    """Yield each report with its outcome in words, and the lines that show it."""
    reports = tuple(reports)
    before: list[str] | None = None
    for report, after in zip(reports, texts(reports), strict=True):
        if before is None:
            yield report, counted(len(after), "line"), after
        elif not report.applied:
            yield report, "not applied", []
        elif before == after:
            yield report, "applied, and the text is the same", []
        else:
            changed = _difference(before, after, 0)
            added, removed = (sum(line.startswith(sign) for line in changed) for sign in "+-")
            difference = _difference(before, after, _CONTEXT)
            shown = min(difference, after, key=len)
            yield report, f"applied: {counted(added, 'line')} added, {removed} removed", shown
        before = after


def texts(reports: Iterable[PassReport]) -> list[list[str]]:
    """Return the lines of each program; a value that passes keep has the same name in all of them."""
    names: dict[Value, str] = {}
    return [print_program(report.program, names).splitlines() for report in reports]


def _difference(before: list[str], after: list[str], context: int) -> list[str]:
    lines = difflib.unified_diff(before, after, n=context, lineterm="")
    return list(lines)[2:]  # without the names of files

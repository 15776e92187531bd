"""Tell what differs between two records: programs, targets and kinds, with each distinct change once."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# What is compared, in this order. `variants` are the counts of a group of calls.
KINDS = ("text", "picks", "launch", "error", "numbers", "variants")
# How many changes of each kind are shown, and how many lines of each, unless all are asked for.
FIRST, LINES, WHERE = 3, 40, 4


@dataclass
class Change:
    """A change that several programs share: the lines of their difference, and where."""

    kind: str
    lines: list[str]
    where: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Comparison:
    """Two records compared.

    programs: how many both have. differing: those that differ. only: those that one has. unasked: what one of both
    could not be asked, which is not compared. changes: by kind.
    """

    programs: int
    differing: set[str]
    only: dict[str, list[str]]
    unasked: dict[str, str]
    changes: dict[str, list[Change]]

    @property
    def is_same(self) -> bool:
        return not self.differing and not any(self.only.values())


def compare(old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """Compare two records."""
    unasked = {**old["unasked"], **new["unasked"]}
    skipped = {name.strip() for told in unasked for name in told.split(",")}
    found: dict[tuple[str, tuple[str, ...]], Change] = {}
    both = [name for name in old["programs"] if name in new["programs"]]
    for name in both:
        for target, kind, before, after in _differences(old["programs"][name], new["programs"][name]):
            if kind not in skipped:
                _note(found, kind, before, after, name, target)
    if "variants" not in skipped:
        for name in old["variants"].keys() & new["variants"].keys():
            for target, before, after in _changed(old["variants"][name], new["variants"][name]):
                _note(found, "variants", f"{before}", f"{after}", name, target)
    changes: dict[str, list[Change]] = {}
    for change in found.values():
        changes.setdefault(change.kind, []).append(change)
    for listed in changes.values():
        listed.sort(key=lambda change: (-len(change.where), change.lines))
    parts = {told.removeprefix("part ") for told in unasked if told.startswith("part ")}
    only = {
        side: [name for name in mine if name not in theirs and name.split(":")[0] not in parts]
        for side, mine, theirs in (
            ("OLD", old["programs"], new["programs"]),
            ("NEW", new["programs"], old["programs"]),
        )
    }
    differing = {name for change in found.values() for name in change.where}
    return Comparison(len(both), differing, only, unasked, changes)


def _differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield target, kind and both texts. Where one is refused, the other's text is no difference of its own."""
    for target in sorted(old.keys() | new.keys()):
        before, after = old.get(target, {}), new.get(target, {})
        is_refused = "error" in before or "error" in after
        for kind in ("error",) if is_refused else KINDS:
            if before.get(kind) != after.get(kind):
                yield target, kind, *(each.get(kind) or "(none)" for each in (before, after))


def _changed(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    yield from ((key, old.get(key), new.get(key)) for key in sorted(old | new) if old.get(key) != new.get(key))


def _note(found: dict, kind: str, before: str, after: str, name: str, target: str) -> None:
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), "old", "new", n=2, lineterm=""))[2:]
    key = (kind, tuple(line for line in lines if line[0] in "+-"))
    change = found.setdefault(key, Change(kind, lines))
    change.where.setdefault(name, []).append(target)


def show(comparison: Comparison, is_full: bool = False) -> Iterator[str]:
    """Yield the lines of an answer: how many are identical, and of those that differ the first of each kind."""
    count, differ = comparison.programs, len(comparison.differing)
    yield f"{count} programs, {count - differ} identical, {differ} differ"
    for told, why in comparison.unasked.items():
        yield f"not compared: {told} ({why.splitlines()[0]})"
    for side, names in comparison.only.items():
        if names:
            yield f"only {side} has {len(names)}: {_some(names, is_full)}"
    for kind in KINDS:
        changes = comparison.changes.get(kind, [])
        if changes:
            programs = {name for change in changes for name in change.where}
            yield f"\n{kind}: {len(programs)} programs, {len(changes)} distinct changes"
        for change in changes if is_full else changes[:FIRST]:
            yield from _change(change, is_full)
        if not is_full and len(changes) > FIRST:
            yield f"  and {len(changes) - FIRST} more: --full shows them"


def _change(change: Change, is_full: bool) -> Iterator[str]:
    where = [f"{name} [{', '.join(targets)}]" for name, targets in change.where.items()]
    yield f"\n  {_some(where, is_full)}"
    lines = change.lines if is_full else change.lines[:LINES]
    yield from (f"    {line}" for line in lines)
    if len(lines) < len(change.lines):
        yield f"    ... {len(change.lines) - len(lines)} lines more"


def _some(names: list[str], is_full: bool) -> str:
    shown = names if is_full else names[:WHERE]
    return "; ".join(shown) + (f"; and {len(names) - len(shown)} more" if len(shown) < len(names) else "")

"""Verify parameters that share memory in a call: whether a program touches what another stores through the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ninetoothed.races.enumeration import Clash
from ninetoothed.runtime.aliasing import Pair, near
from ninetoothed.runtime.memory import are_shared
from ninetoothed.verification.counting import Touch
from ninetoothed.verification.findings import Finding
from ninetoothed.verification.notes import line_of, shapes_of, text_of, who
from ninetoothed.verification.subject import Subject
from ninetoothed.verification.witness import Counterexample, Seen, is_shown

APART = "no program touches what another stores to"


def shared(subject: Subject) -> Iterator[Finding]:
    """Yield a finding for each two parameters of a call that share memory, of which one is stored to."""
    names, footprints = list(subject.arguments), subject.program.footprints
    if footprints is None:
        return
    written = [name for name in names if subject.sites(name, True)]
    touched = [name for name in names if written and (name in written or subject.sites(name, False))]
    pairs = tuple(
        Pair(subject.definition, names.index(name), names.index(other), subject.values, footprints)
        for name in written
        for other in touched
        if other not in written or names.index(other) > names.index(name)
    )
    for pair, distance in near(tuple(subject.arguments.values()), pairs):
        yield _finding(subject, names[pair.output], names[pair.other], pair, distance)


def _finding(subject: Subject, name: str, other: str, pair: Pair, distance: int) -> Finding:
    claim = f"{APART} {other}, which shares its memory"
    tensors = subject.arguments[name], subject.arguments[other]
    width = tensors[0].itemsize
    if not are_shared(*tensors):
        return Finding(name, claim, "proved")
    if width != tensors[1].itemsize or distance % width:
        return Finding(name, claim, "not decided", "their elements begin at other bytes")
    if distance == 0 and pair.may_be_in_place:
        return Finding(name, claim, "proved")
    verdict = subject.program.footprints.between(name, other, distance // width).answer(subject.values)
    line = line_of(subject.sites(name, True)[0])
    if verdict is None:
        return Finding(name, claim, "proved")
    if verdict.clash is None:
        return Finding(name, claim, "not decided", "no proof was found, and no example against it", line)
    ranks = {key: len(shape) for key, shape in subject.shapes.items()}
    example = _example(verdict.clash, name, distance // width, ranks)
    reason = f"{example.text}, with {shapes_of(subject)}"
    if is_shown(subject, example):
        return Finding(name, claim, "refuted", reason, line)
    return Finding(name, claim, "not decided", f"{reason}: so it is counted, but no run showed it", line)


def _example(clash: Clash, name: str, distance: int, ranks: Mapping[str, int]) -> Counterexample:
    """Make an example of two touches; places are distances from the first element of the other parameter."""
    seen, told = [], []
    for site, program, lane in zip(clash.sites, clash.programs, clash.lanes, strict=True):
        place = None if clash.element is None else (clash.element[0] - distance * (site.parameter == name),)
        seen.append(Seen(site.parameter, program, site.is_store, place))
        does = "stores to" if site.is_store else "reads"
        told.append(f"{who(Touch((), program, lane))} {does} {_named(site.parameter, place, ranks[site.parameter])}")
    return Counterexample(f"{told[0]}, and {told[1]}", tuple(seen))


def _named(name: str, place: tuple[int, ...] | None, rank: int) -> str:
    if place is None:
        return f"an element of {name}"
    return f"{name}[{text_of(place)}]" if rank == 1 else f"element {text_of(place)} after the first of {name}"

"""Prove that a kernel writes each element once, stays in bounds and does not race; or show where it does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ninetoothed.errors import NineToothedError, SizeError, VerificationError, VerificationWarning, warn_user
from ninetoothed.expr import Facts, Max, const, is_nonnegative, var
from ninetoothed.races.enumeration import Clash
from ninetoothed.races.question import Question
from ninetoothed.races.site import Site, Space, inside
from ninetoothed.runtime.selection import machine
from ninetoothed.verification.counting import Counts, Touch, count
from ninetoothed.verification.coverage import are_covered
from ninetoothed.verification.findings import Finding, Verification
from ninetoothed.verification.steps import suspects
from ninetoothed.verification.subject import Subject, examples, subject
from ninetoothed.wording import listed, reworded

ONCE = "no element is written by two programs or lanes"
EVERYWHERE = "every element is written"
INSIDE = "nothing is touched out of bounds"
FOLLOWED = "atomic functions change it: they are not followed"
ALONE = "no program reads what another writes"


def verify(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Verification:
    """Verify a kernel for the class of a call; without arguments, for contiguous tensors of whatever sizes."""
    gpu = machine.current() or machine.H200
    subjects = [subject(kernel, args, kwargs, gpu)] if args else list(_subjects(kernel, kwargs, gpu))
    first, definition = subjects[0], kernel.definition
    findings = [finding for name in first.shapes for finding in _findings(name, subjects)]
    changed = () if first.footprints is None else sorted(first.footprints.changed)
    findings += [Finding(name, INSIDE, "not decided", FOLLOWED) for name in changed]
    blocks = ", ".join(f"{name} = {value}" for name, value in first.blocks.items())
    scope = "for all sizes of its class" + (f", with {blocks}" if blocks else "")
    notes = (f"with {_shapes(first)}:", *_reads(first), *_independent(first, findings))
    names = definition.given_names
    found = (replace(each, reason=reworded(each.reason, names)) for each in findings)
    return Verification(definition.name, reworded(scope, names), tuple(found), tuple(reworded(n, names) for n in notes))


def demand(kernel: Any) -> None:
    """Verify a kernel for tensors of whatever sizes; raise what is refuted, and warn of what is not decided.

    Raises `VerificationError`, and `ArgumentError` for a kernel of which only the arguments of a call tell enough.
    """
    found = verify(kernel, (), {})
    if found.verdict == "refuted":
        raise VerificationError(str(found), found)
    if found.verdict == "not decided":
        warn_user(str(found), VerificationWarning)


def _subjects(kernel: Any, kwargs: Mapping[str, Any], gpu: machine.Machine) -> Iterator[Subject]:
    """Trace examples: those of sizes that do not fit together are left out, unless none is left."""
    error: NineToothedError | None = None
    is_empty = True
    for args in examples(kernel.definition):
        try:
            yield subject(kernel, args, kwargs, gpu)
            is_empty = False
        except NineToothedError as found:
            error = error or found
    if is_empty and error is not None:
        raise SizeError(f"{error}; `verify` took one size for all dimensions: give it shapes that fit together")


def _findings(name: str, subjects: Sequence[Subject]) -> Iterator[Finding]:
    first = subjects[0]
    stores, loads = (first.sites(name, are_stores) for are_stores in (True, False))
    if not stores and not loads:
        return
    yield _answered(name, INSIDE, _is_inside(first, [*stores, *loads], name), subjects, _outside, [*stores, *loads])
    if stores:
        space, memory, footprints = first.space(name), first.memories[name], first.footprints
        assert footprints is not None
        is_once = not _of_any_value(stores, space, footprints.facts).left()
        yield _answered(name, ONCE, is_once, subjects, _twice, stores)
        is_covered = are_covered(stores, space, footprints.facts, memory.sizes)
        yield _answered(name, EVERYWHERE, is_covered, subjects, _missing, stores)
    if stores and loads:
        yield _alone(name, subjects)


def _answered(
    name: str, claim: str, is_proved: bool, subjects: Sequence[Subject], refute: Any, sites: Sequence[Site]
) -> Finding:
    if is_proved:
        return Finding(name, claim, "proved")
    for each in subjects:
        reason = refute(name, each)
        if reason:
            return Finding(name, claim, "refuted", f"{reason}, with {_shapes(each)}", _cause(each, name, sites[0]))
    return Finding(name, claim, "not decided", _open(sites), _line(sites[0]))


def _cause(subject: Subject, name: str, site: Site) -> str:
    """Name the first meta-operation after which not every element is held once; else the line of an access."""
    step = next(suspects(subject.parameter(name).arrangement), None)
    return f"by `{step.operation}`: {step.line}" if step is not None and step.line else _line(site)


def _open(sites: Sequence[Site]) -> str:
    """Say which access is not decided, and why."""
    places = ", ".join(dict.fromkeys(f"[{', '.join(map(str, site.place))}]" for site in sites))
    if any(site.conditions for site in sites):
        return f"a condition that a run decides stands before {places}"
    if any(name.startswith("loaded") for site in sites for name in site.mentioned):
        return f"a run decides on the place {places}"
    return f"no proof was found for {places}, and no example against it"


def _is_inside(subject: Subject, sites: Sequence[Site], name: str) -> bool:
    """Tell whether each index is proved to be an element's, wherever the guards hold."""
    footprints = subject.footprints
    assert footprints is not None
    sizes = subject.memories[name].sizes
    for site in sites:
        if site.is_pointed:
            return False
        facts = _reached(site, subject.space(name).facts(footprints.facts, (site,)))
        for index, size in zip(site.place, sizes, strict=True):
            lower = [index - guard.index for guard in site.guards if guard.lower]
            upper = [size - index - (guard.size - guard.index) for guard in site.guards if guard.upper]
            for end, guarded in ((index, lower), (size - 1 - index, upper)):
                # A guard of the index, or of one that is further out by a number, needs no search.
                if not any(each.is_constant and each.constant >= 0 for each in guarded):
                    if not is_nonnegative(end, facts):
                        return False
    return True


def _reached(site: Site, facts: Facts) -> Facts:
    """Assume that a site is reached: below max(n, 0) lies a number that is not negative only if it is below n."""
    facts = inside(site, facts)
    for guard in site.guards:
        largest = guard.size.sole_atom
        if guard.upper and isinstance(largest, Max) and is_nonnegative(guard.index, facts):
            for size in (each for each in largest.operands if each != 0):
                if len(largest.operands) == 2 and const(0) in largest.operands:
                    facts = facts.assume(guard.index, 0, size - 1)
    return facts


def _counted(name: str, subject: Subject, sites: Sequence[Site]) -> Counts | None:
    return count(sites, subject.space(name), subject.memories[name].sizes, subject.values) if sites else None


def _of_any_value(stores: Sequence[Site], space: Space, facts: Facts) -> Question:
    """Ask of stores alone, as if no two of them stored the same number."""
    own = (tuple(var(name) for name in (*space.axes, *s.rounds, *(lane.name for lane in s.lanes))) for s in stores)
    sites = (replace(site, keys=keys, tag=i) for i, (site, keys) in enumerate(zip(stores, own, strict=True)))
    return Question(stores[0].parameter, tuple(sites), space, facts)


def _outside(name: str, subject: Subject) -> str:
    for are_stores in (True, False):
        counts = _counted(name, subject, subject.sites(name, are_stores))
        if counts is not None and counts.outside is not None:
            does = "stores to" if are_stores else "reads"
            return f"{_who(counts.outside)} {does} {name}[{_text(counts.outside.element)}]"
    return ""


def _twice(name: str, subject: Subject) -> str:
    stores = subject.sites(name, True)
    counts = _counted(name, subject, stores)
    if counts is not None and counts.twice is not None:
        first, second = counts.twice
        return f"{_who(first)} and {_who(second)} both store to {name}[{_text(first.element)}]"
    verdict = _of_any_value(stores, subject.space(name), Facts()).answer(subject.values)
    return "" if verdict is None or verdict.clash is None else _met(name, verdict.clash)


def _missing(name: str, subject: Subject) -> str:
    counts = _counted(name, subject, subject.sites(name, True))
    if counts is None or counts.programs.all():
        return ""
    index = [int(each[0]) for each in (counts.programs == 0).nonzero()]
    return f"no program stores to {name}[{_text(index)}]"


def _alone(name: str, subjects: Sequence[Subject]) -> Finding:
    """Look for races with the numbers of calls, where the frontend has found no proof against them."""
    footprints = subjects[0].footprints
    assert footprints is not None
    site = subjects[0].sites(name, True)[0]
    if all(question.parameter != name for question in footprints.questions):
        return Finding(name, ALONE, "proved")
    for each in subjects:
        questions = () if each.footprints is None else each.footprints.questions
        for question in questions:
            verdict = question.answer(each.values) if question.parameter == name else None
            if verdict is not None and verdict.clash is not None:
                reason = f"{_met(name, verdict.clash)}, with {_shapes(each)}"
                return Finding(name, ALONE, "refuted", reason, _line(site))
    return Finding(name, ALONE, "not decided", _open([site]), _line(site))


def _met(name: str, clash: Clash) -> str:
    first, second = clash.programs
    where = f"{name}[{_text(clash.element)}]" if clash.element else f"an element of {name}"
    if first == second:
        return (
            f"lanes ({_text(clash.lanes[0])}) and ({_text(clash.lanes[1])}) of program ({_text(first)}) meet at {where}"
        )
    return f"programs ({_text(first)}) and ({_text(second)}) meet at {where}"


def _reads(subject: Subject) -> Iterator[str]:
    """Tell, with the numbers of a call, by how many programs elements are read."""
    found: dict[str, list[str]] = {}
    for name in subject.shapes:
        counts = _counted(name, subject, subject.sites(name, False))
        if counts is not None and counts.programs.size:
            least, most = int(counts.programs.min()), int(counts.programs.max())
            times = f"{most}" if least == most else f"{least} to {most}"
            found.setdefault(f"{times} program{'s' * (most != 1)}", []).append(name)
    return (f"each element of {listed(names)} is read by {times}" for times, names in found.items())


def _independent(subject: Subject, findings: Sequence[Finding]) -> Iterator[str]:
    """Tell which dimensions of the grid are independent: programs apart in one meet nowhere."""
    if subject.footprints is None or subject.footprints.changed:
        return
    axes = range(len(subject.footprints.space.axes))
    alone = set(axes)
    for name in {each.parameter for each in findings if each.claim in (ONCE, ALONE) and each.verdict != "proved"}:
        sites = [site for are_stores in (True, False) for site in subject.sites(name, are_stores)]
        counts = _counted(name, subject, sites)
        if counts is None:
            return
        alone &= {axis for axis in axes if len(counts.apart) > axis and counts.apart[axis]}
    if axes:
        yield f"independent dimensions of the grid: {listed(list(map(str, sorted(alone)))) or 'none'} of {len(axes)}"


def _who(touch: Touch) -> str:
    return f"program ({_text(touch.program)})"


def _text(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _shapes(subject: Subject) -> str:
    return listed([f"{name} of {shape}" for name, shape in subject.shapes.items()])


def _line(site: Site) -> str:
    return "" if site.location is None else f"{site.location}: {site.location.text.strip()}"

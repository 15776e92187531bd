"""Prove that a kernel writes each element once, stays in bounds and does not race; or show where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ninetoothed.arrangement.metaops import partitions
from ninetoothed.errors import NineToothedError, SizeError, VerificationError, VerificationWarning, warn_user
from ninetoothed.expr import Facts, Max, const, is_nonnegative, var
from ninetoothed.races.enumeration import Clash
from ninetoothed.races.question import Question
from ninetoothed.races.site import Site, Space, inside
from ninetoothed.runtime.selection import machine
from ninetoothed.verification.counting import Touch
from ninetoothed.verification.coverage import are_covered
from ninetoothed.verification.findings import Finding, Verification
from ninetoothed.verification.notes import counted, independent, line_of, reads, shapes_of, text_of, who
from ninetoothed.verification.sharing import shared
from ninetoothed.verification.subject import Subject, examples, subject
from ninetoothed.verification.witness import Counterexample, Seen, is_shown
from ninetoothed.wording import reworded

Refute = Callable[[str, Subject], Counterexample | None]
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
    findings += shared(first)
    changed = () if first.footprints is None else sorted(first.footprints.changed)
    findings += [Finding(name, INSIDE, "not decided", FOLLOWED) for name in changed]
    blocks = ", ".join(f"{name} = {value}" for name, value in first.blocks.items())
    scope = "for all sizes of its class" + (f", with {blocks}" if blocks else "")
    notes = (*reads(subjects), *independent(subjects))
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
        space, footprints = first.space(name), first.footprints
        assert footprints is not None
        is_once = not _of_any_value(stores, space, footprints.facts).left()
        yield _answered(name, ONCE, is_once, subjects, _twice, stores)
        is_covered = first.is_dense(name, {}) and are_covered(stores, space, footprints.facts, first.sizes(name))
        yield _answered(name, EVERYWHERE, is_covered, subjects, _missing, stores)
    if stores and loads:
        yield _alone(name, subjects)


def _answered(
    name: str, claim: str, is_proved: bool, subjects: Sequence[Subject], refute: Refute, sites: Sequence[Site]
) -> Finding:
    if is_proved:
        return Finding(name, claim, "proved")
    open = _open(sites)
    for each in subjects:
        example = refute(name, each)
        if example is None:
            continue
        reason = f"{example.text}, with {shapes_of(each)}"
        if is_shown(each, example):
            return Finding(name, claim, "refuted", reason, _cause(each, name, sites[0]))
        open = f"{reason}: so it is counted, but no run showed it"
    return Finding(name, claim, "not decided", open, line_of(sites[0]))


def _cause(subject: Subject, name: str, site: Site) -> str:
    """Name the first meta-operation after which not every element is held once; else the line of an access."""
    steps = subject.parameter(name).arrangement.steps
    step = next((each for each in steps if not partitions(each)), None)
    return f"by `{step.operation}`: {step.line}" if step is not None and step.line else line_of(site)


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
    sizes = subject.sizes(name)
    for site in sites:
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


def _of_any_value(stores: Sequence[Site], space: Space, facts: Facts) -> Question:
    """Ask of stores alone, as if no two of them stored the same number."""
    own = (tuple(var(name) for name in (*space.axes, *s.rounds, *(lane.name for lane in s.lanes))) for s in stores)
    sites = (replace(site, keys=keys, tag=i) for i, (site, keys) in enumerate(zip(stores, own, strict=True)))
    return Question(stores[0].parameter, tuple(sites), space, facts)


def _outside(name: str, subject: Subject) -> Counterexample | None:
    for are_stores in (True, False):
        counts = counted(name, subject, subject.sites(name, are_stores))
        if counts is not None and counts.outside is not None:
            touch, does = counts.outside, "stores to" if are_stores else "reads"
            text = f"{who(touch)} {does} {_element(name, subject, touch.element)}"
            return Counterexample(text, (Seen(name, touch.program, are_stores, touch.element),))
    return None


def _twice(name: str, subject: Subject) -> Counterexample | None:
    stores = subject.sites(name, True)
    counts = counted(name, subject, stores)
    if counts is not None and counts.twice is not None:
        first, second = counts.twice
        text = f"{who(first)} and {who(second)} both store to {_element(name, subject, first.element)}"
        return Counterexample(text, tuple(Seen(name, each.program, True, each.element) for each in (first, second)))
    verdict = _of_any_value(stores, subject.space(name), Facts()).answer(subject.values)
    return None if verdict is None or verdict.clash is None else _met(name, subject, verdict.clash)


def _missing(name: str, subject: Subject) -> Counterexample | None:
    counts = counted(name, subject, subject.sites(name, True))
    if counts is None or counts.programs.all() or not subject.is_dense(name, subject.values):
        return None
    index = tuple(int(each[0]) for each in (counts.programs == 0).nonzero())
    return Counterexample(f"no program stores to {_element(name, subject, index)}", missing=(name, index))


def _alone(name: str, subjects: Sequence[Subject]) -> Finding:
    """Look for races with the numbers of calls, where the frontend has found no proof against them."""
    footprints = subjects[0].footprints
    assert footprints is not None
    is_proved = all(question.parameter != name for question in footprints.questions)
    return _answered(name, ALONE, is_proved, subjects, _race, subjects[0].sites(name, True))


def _race(name: str, subject: Subject) -> Counterexample | None:
    questions = () if subject.footprints is None else subject.footprints.questions
    for question in questions:
        verdict = question.answer(subject.values) if question.parameter == name else None
        if verdict is not None and verdict.clash is not None:
            return _met(name, subject, verdict.clash)
    return None


def _met(name: str, subject: Subject, clash: Clash) -> Counterexample:
    first, second = (Touch((), *each) for each in zip(clash.programs, clash.lanes, strict=True))
    where = f"an element of {name}" if clash.element is None else _element(name, subject, clash.element)
    pairs = zip(clash.programs, clash.sites, strict=True)
    touches = tuple(Seen(name, program, site.is_store, clash.element) for program, site in pairs)
    return Counterexample(f"{who(first)} and {who(second)} meet at {where}", touches)


def _element(name: str, subject: Subject, element: Sequence[int]) -> str:
    """Name an element by its indices; of a pointer, by its distance from the first."""
    shape = subject.shapes[name]
    if len(element) == len(shape):
        return f"{name}[{text_of(element)}]"
    return f"element {element[0]} after the first of {name}"

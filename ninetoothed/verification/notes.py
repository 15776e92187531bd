"""Tell what is no fault: which dimensions of the grid are independent, and how many programs read an element."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from ninetoothed.expr import Expr, const
from ninetoothed.races.question import Question
from ninetoothed.races.site import Site
from ninetoothed.verification.counting import Counts, Touch, count
from ninetoothed.verification.coverage import are_covered
from ninetoothed.verification.subject import Subject
from ninetoothed.wording import listed


def counted(name: str, subject: Subject, sites: Sequence[Site]) -> Counts | None:
    """Count the touches of some sites of a parameter with the numbers of a call; not of entries, which have none."""
    if subject.parameter(name).jagged is not None:
        return None
    return count(sites, subject.space(name), subject.sizes(name), subject.values) if sites else None


def independent(subjects: Sequence[Subject]) -> Iterator[str]:
    """Tell which dimensions of the grid are independent: no program touches what one apart in them stores."""
    first = subjects[0]
    if first.footprints is None or first.footprints.changed:
        return
    axes = tuple(first.footprints.space.axes)
    found: dict[str, list[str]] = {}
    for number, axis in enumerate(axes):
        verdict = "independent" if is_independent(axis, first) else _meeting(number, subjects)
        found.setdefault(verdict, []).append(str(number))
    for verdict, numbers in found.items():
        many = len(numbers) > 1
        yield f"dimension{'s' * many} {listed(numbers)} of the grid {'are' if many else 'is'} {verdict}"


def _stored(subject: Subject) -> list[str]:
    return [name for name in subject.shapes if subject.sites(name, True)]


def is_independent(axis: str, subject: Subject) -> bool:
    """Tell whether it is proved that programs that meet at an element, where one stores, are at one index."""
    for name in _stored(subject):
        sites = [site for are_stores in (True, False) for site in subject.sites(name, are_stores)]
        if _fixed(name, subject, sites, [axis], stores=True) != [axis]:
            return False
    return True


def _fixed(name: str, subject: Subject, sites: Sequence[Site], axes: Sequence[str], stores: bool = False) -> list[str]:
    """Return the axes along which programs are at one index where they touch one element, proved for all sizes.

    stores: of two sites, one must be a store.
    """
    assert subject.footprints is not None
    question = Question(name, tuple(sites), subject.space(name), subject.footprints.facts)
    pairs = itertools.combinations_with_replacement(sites, 2)
    asked = [pair for pair in pairs if not stores or pair[0].is_store or pair[1].is_store]
    return question.shared(asked, axes)


def _meeting(number: int, subjects: Sequence[Subject]) -> str:
    """Say of a dimension that is not proved to be independent what small sizes tell."""
    for each in subjects:
        for name in _stored(each):
            sites = [site for are_stores in (True, False) for site in each.sites(name, are_stores)]
            counts = counted(name, each, sites)
            if counts is not None and not counts.apart[number]:
                return f"not independent: programs apart in it meet in {name}, with {shapes_of(each)}"
    return "not proved to be independent"


def reads(subjects: Sequence[Subject]) -> Iterator[str]:
    """Tell by how many programs each element is read: for all sizes, else with the numbers of a call."""
    first = subjects[0]
    found: dict[str, list[str]] = {}
    for name in first.shapes:
        if first.sites(name, False):
            found.setdefault(_readers(name, first), []).append(name)
    return (f"each element of {listed(names)} is read by {times}" for times, names in found.items())


def readers(name: str, subject: Subject) -> tuple[Expr, bool] | None:
    """Return by how many programs an element is read at most, and whether each is by so many; None without a proof."""
    assert subject.footprints is not None
    sites, space = subject.sites(name, False), subject.space(name)
    mentioned = frozenset().union(*(site.mentioned for site in sites))
    ranges = (end for known in space.ranges.values() for end in (known.lo, known.hi) if end is not None)
    mentioned = mentioned.union(*(end.variables for end in ranges))
    # Program indices that decide on nothing: all along them read alike.
    free = [axis for axis in space.axes if axis not in mentioned]
    own = [axis for axis in space.axes if axis in mentioned]
    if _fixed(name, subject, sites, own) != own:
        return None
    number = math.prod((space.counts[axis] for axis in free), start=const(1))
    return number, are_covered(sites, space, subject.footprints.facts, subject.sizes(name))


def _readers(name: str, subject: Subject) -> str:
    found = readers(name, subject)
    if found is not None:
        number, is_exact = found
        return f"{'' if is_exact else 'at most '}{number} program{'s' * (number != 1)}, whatever the sizes"
    counts = counted(name, subject, subject.sites(name, False))
    if counts is None or not counts.programs.size:
        return "a number of programs that only a run tells"
    least, most = int(counts.programs.min()), int(counts.programs.max())
    times = f"{most}" if least == most else f"{least} to {most}"
    return f"{times} program{'s' * (most != 1)} of a call with {name} of {subject.shapes[name]}"


def text_of(numbers: Sequence[int]) -> str:
    """Write indices."""
    return ", ".join(map(str, numbers))


def who(touch: Touch) -> str:
    """Name the program and the lane of a touch."""
    lane = f", lane ({text_of(touch.lane)})" if touch.lane else ""
    return f"program ({text_of(touch.program)}){lane}"


def shapes_of(subject: Subject) -> str:
    """Name the shapes of a call."""
    return listed([f"{name} of {shape}" for name, shape in subject.shapes.items()])


def line_of(site: Site) -> str:
    """Show the user's line of an access."""
    return "" if site.location is None else f"{site.location}: {site.location.text.strip()}"

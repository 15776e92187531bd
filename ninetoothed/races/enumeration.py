"""Count what all programs touch, where they are few; of many, some of them, to find two that race."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from ninetoothed.expr import Expr, Facts, var
from ninetoothed.races.points import Array, Points, evaluate
from ninetoothed.races.site import Site, Space

# What a number of run time is, beside 0, where both must give one place.
_FAR = 1_000_003


@dataclass(frozen=True, eq=False)
class Clash:
    """Two touches of one element that race.

    sites: of them. programs, lanes: their numbers. element: its indices, None where numbers of run time decide on it.
    is_certain: whether nothing that only a run tells could keep them apart.
    """

    sites: tuple[Site, Site]
    programs: tuple[tuple[int, ...], tuple[int, ...]]
    lanes: tuple[tuple[int, ...], tuple[int, ...]]
    element: tuple[int, ...] | None
    is_certain: bool


@dataclass(frozen=True, eq=False)
class _Touches:
    """All touches that were counted: an array each, over touches."""

    sites: tuple[Site, ...]
    number: Array
    place: Array
    program: Array
    moment: Array
    value: Array
    is_certain: Array
    is_store: Array
    points: tuple[dict[str, Array], ...]
    starts: tuple[int, ...]


def enumerate_sites(sites: tuple[Site, ...], space: Space) -> tuple[Clash | None, bool]:
    """Find a race; tell also whether all was counted, so that finding none is a proof."""
    facts = space.facts(Facts(), sites)
    spread = [Points.of(site, space, facts, frozenset(site.rounds) - site.mentioned) for site in sites]
    is_complete = all(each.is_complete for each in spread)
    is_known = all(site.mentioned.isdisjoint(space.loaded) for site in sites)
    touches = _touches(sites, space, spread)
    clash = _of_values(touches, space) or _of_reads(touches, space)
    return clash, is_complete and is_known


def meets_again(store: Site, load: Site, space: Space) -> bool:
    """Tell whether some program reads an element by a load after it stored to it, as far as is counted."""
    facts = space.facts(Facts(), (store, load))
    sites = store, load
    touches = _touches(sites, space, [Points.of(site, space, facts, frozenset()) for site in sites])
    owner = touches.place * (int(touches.program.max(initial=0)) + 1) + touches.program
    _, owner = numpy.unique(owner, return_inverse=True)
    first = numpy.full(int(owner.max(initial=0)) + 1, numpy.iinfo(int).max)
    numpy.minimum.at(first, owner[touches.is_store], touches.moment[touches.is_store])
    return bool((touches.moment[~touches.is_store] > first[owner[~touches.is_store]]).any())


def _touches(sites: tuple[Site, ...], space: Space, spread: Sequence[Points]) -> _Touches:
    """Number places, programs, moments and values, so that equal ones have equal numbers."""
    points = [each.points for each in spread]
    counts = [len(own[""]) for own in points]
    numbers = numpy.repeat(numpy.arange(len(sites)), counts)
    tags = {tag: number for number, tag in enumerate(dict.fromkeys(site.tag for site in sites))}
    given = [{name: at * (_FAR + i) for i, name in enumerate(space.loaded)} for at in (0, 1)]
    known = dict[tuple[str, ...], int]()
    place, program, moment, value = [], [], [], []
    for site, own in zip(sites, points, strict=True):
        # Numbers of run time are the same where what decides on them is; which they are must not matter.
        loaded = tuple(sorted({name for e in site.place for name in e.variables if name in space.loaded}))
        keys = [key for name in loaded for key in space.loaded[name]]
        columns = _columns([*site.place, *keys], {**own, **given[0]}, known.setdefault(loaded, len(known)))
        place.append(columns + (_columns(site.place, {**own, **given[1]}) if loaded else []))
        program.append(_columns([var(axis) for axis in space.axes], own))
        moment.append(_columns(site.order, {**dict.fromkeys(site.rounds, 0), **own}))
        value.append(_columns(site.keys, {**dict.fromkeys(site.rounds, 0), **own}, tags[site.tag]))
    certain = numpy.array([each.is_sure for each in spread])
    are_stores = numpy.array([site.is_store for site in sites])
    places, programs, moments, values = (_numbered(each, counts) for each in (place, program, moment, value))
    return _Touches(
        sites, numbers, places, programs, moments, values, certain[numbers], are_stores[numbers], tuple(points),
        tuple(itertools.accumulate(counts, initial=0)),
    )  # fmt: skip


def _columns(expressions: Iterable[Expr], points: dict[str, Any], first: int | None = None) -> list[Any]:
    columns = [] if first is None else [first]
    for e in expressions:
        known = {name: points.get(name, 0) for name in e.variables}
        columns.append(evaluate(e, known))
    return columns


def _numbered(tables: list[list[Any]], counts: list[int]) -> Array:
    """Number rows of columns, in their order. Rows that are shorter are filled up by zeros."""
    width = max(map(len, tables), default=0)
    total: Array = numpy.zeros(sum(counts), numpy.int64)
    for i in range(width):
        column = numpy.concatenate(
            [
                numpy.broadcast_to(numpy.asarray(table[i] if i < len(table) else 0, numpy.int64), (count,))
                for table, count in zip(tables, counts, strict=True)
            ]
        )
        distinct, ranks = numpy.unique(column, return_inverse=True)
        _, total = numpy.unique(total * len(distinct) + ranks, return_inverse=True)
    return total


def _of_values(touches: _Touches, space: Space) -> Clash | None:
    """Find two stores of different numbers, by two programs or by lanes of one."""
    stores = numpy.flatnonzero(touches.is_store)
    if not len(stores):
        return None
    owner = touches.place[stores] * (int(touches.program.max()) + 1) + touches.program[stores]
    _, owner = numpy.unique(owner, return_inverse=True)
    # What a program stores later to the same element hides what it stored before.
    last = numpy.full(int(owner.max()) + 1, -1)
    always = numpy.array([not site.conditions for site in touches.sites])
    sure = touches.is_certain[stores] & always[touches.number[stores]]
    numpy.maximum.at(last, owner[sure], touches.moment[stores][sure])
    left = stores[touches.moment[stores] >= last[owner]]
    order = numpy.lexsort((touches.program[left], touches.value[left], touches.place[left]))
    left = left[order]
    first = _first_of_group(touches.place[left])
    differ = touches.value[left] != touches.value[left][first]
    for position in numpy.flatnonzero(differ):
        group = left[touches.place[left] == touches.place[left[position]]]
        pair = _racing(touches, group)
        if pair is not None:
            return _clash(touches, space, *pair)
    return None


def _racing(touches: _Touches, group: Array) -> tuple[int, int] | None:
    """Find two stores to one element that race: of different values, by two programs or at one moment."""
    for b in group:
        is_other = touches.value[group] != touches.value[b]
        are_apart = (touches.program[group] != touches.program[b]) | (touches.moment[group] == touches.moment[b])
        for a in group[is_other & are_apart][:1]:
            return int(min(a, b)), int(max(a, b))
    return None


def _first_of_group(sorted_numbers: Array) -> Array:
    """Return, for each of some sorted numbers, the position of the first that is equal."""
    starts = numpy.flatnonzero(numpy.diff(sorted_numbers, prepend=-1))
    return numpy.repeat(starts, numpy.diff(starts, append=len(sorted_numbers)))


def _of_reads(touches: _Touches, space: Space) -> Clash | None:
    """Find an element that one program reads and another stores to."""
    stores, loads = numpy.flatnonzero(touches.is_store), numpy.flatnonzero(~touches.is_store)
    if not len(stores) or not len(loads):
        return None
    size = int(touches.place.max()) + 1
    least, most = numpy.full(size, -1), numpy.full(size, -1)
    order = stores[numpy.argsort(touches.program[stores], kind="stable")]
    most[touches.place[order]] = order
    least[touches.place[order[::-1]]] = order[::-1]
    for other in (least, most):
        met = other[touches.place[loads]]
        races = (met >= 0) & (touches.program[met] != touches.program[loads])
        sure = races & touches.is_certain[met] & touches.is_certain[loads]
        for position in numpy.flatnonzero(sure if sure.any() else races)[:1]:
            return _clash(touches, space, int(met[position]), int(loads[position]))
    return None


def _clash(touches: _Touches, space: Space, a: int, b: int) -> Clash:
    points, sites = [], []
    for touch in (a, b):
        number = int(touches.number[touch])
        own = touches.points[number]
        points.append({name: int(column[touch - touches.starts[number]]) for name, column in own.items()})
        sites.append(touches.sites[number])
    programs = tuple(tuple(point[axis] for axis in space.axes) for point in points)
    lanes = tuple(tuple(p[lane.name] for lane in s.lanes) for p, s in zip(points, sites, strict=True))
    is_open = any(name in space.loaded for e in sites[0].place for name in e.variables)
    known = {**dict.fromkeys(sites[0].rounds, 0), **points[0]}
    element = None if is_open else tuple(int(e.evaluate(known)) for e in sites[0].place)
    is_certain = bool(touches.is_certain[a] and touches.is_certain[b])
    return Clash((sites[0], sites[1]), (programs[0], programs[1]), (lanes[0], lanes[1]), element, is_certain)

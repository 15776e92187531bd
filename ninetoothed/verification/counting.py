"""Count, with the numbers of a call, which programs store to each element of a tensor, or read it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from ninetoothed.expr import Expr, Facts, Range
from ninetoothed.expr.arrays import Arrays
from ninetoothed.expr.intervals import bounds_of_range
from ninetoothed.races.site import Site, Space

# How many touches are listed at most.
_MOST = 1 << 20
Array = Any


@dataclass(frozen=True)
class Touch:
    """One touch of an element: its indices, and the program that touches it."""

    element: tuple[int, ...]
    program: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Counts:
    """All touches of a tensor.

    programs: how many programs touch each element. outside: a touch that is out of bounds. twice: touches of one
    element by two programs. apart: for each dimension of the grid, whether programs apart in it never meet.
    """

    programs: Array
    outside: Touch | None
    twice: tuple[Touch, Touch] | None
    apart: tuple[bool, ...]


def count(sites: Sequence[Site], space: Space, sizes: Sequence[Expr], values: Mapping[str, int]) -> Counts | None:
    """Count all touches of some sites; None where a run decides on them, or where they are too many."""
    numbers = {name: value for name, value in values.items() if name not in space.axes}
    shape = tuple(int(size.evaluate(numbers)) for size in sizes)
    space, left, tables = space.with_numbers(numbers), _MOST, []
    for site in sites:
        table = _listed(site, space, numbers, left)
        if table is None:
            return None
        tables.append(table)
        left -= table.shape[1]
    rank, touched = len(shape), numpy.concatenate(tables, axis=1)
    is_inside = ((touched[:rank] >= 0) & (touched[:rank] < numpy.array(shape, int).reshape(-1, 1))).all(0)
    outside = _touch(touched[:, ~is_inside][:, 0], rank) if not is_inside.all() else None
    touched = touched[:, is_inside]
    element, programs = _flat(touched[:rank], shape), touched[rank:]
    pairs = _distinct(element, programs)
    elements = element[pairs]
    counted = numpy.bincount(elements, minlength=math.prod(shape)).reshape(shape)
    apart = tuple(bool((numpy.diff(element[_distinct(element, each[None])]) != 0).all()) for each in programs)
    return Counts(counted, outside, _twice(touched, pairs, elements, rank), apart)


def _listed(site: Site, space: Space, numbers: Mapping[str, int], most: int) -> Array | None:
    """List the touches of a site, a column each: the indices of the element, then those of the program."""
    facts = space.facts(Facts(), (site,))
    if site.conditions or site.is_pointed:
        return None
    site = site.with_numbers(numbers, facts)
    ends = {}
    for name in (*space.axes, *site.rounds, *(lane.name for lane in site.lanes)):
        low, high = bounds_of_range(facts.ranges.get(name, Range(0, 0)), facts)
        if low is None or high is None:
            return None
        ends[name] = (low, max(high + 1, low))
    total = math.prod(high - low for low, high in ends.values())
    if total > most or not site.named <= ends.keys():
        return None
    grids = numpy.meshgrid(*(numpy.arange(low, high) for low, high in ends.values()), indexing="ij")
    points = {name: grid.reshape(-1) for name, grid in zip(ends, grids, strict=True)}
    kept: Array = numpy.ones(total, bool)
    for guard in site.guards:
        index, size = (e.fold(Arrays(points)) for e in guard.parts)
        kept = kept & ((index >= 0) | (not guard.lower)) & ((index < size) | (not guard.upper))
    place = [numpy.broadcast_to(e.fold(Arrays(points)), total)[kept] for e in site.place]
    rows = [*place, *(points[axis][kept] for axis in space.axes)]
    return numpy.stack(rows) if rows else numpy.zeros((0, int(kept.sum())), int)


def _flat(rows: Array, shape: Sequence[int]) -> Array:
    flat: Array = numpy.zeros(rows.shape[1], int)
    for row, size in zip(rows, shape, strict=True):
        flat = flat * size + row
    return flat


def _distinct(element: Array, programs: Array) -> Array:
    """Return where the distinct pairs of an element and a program are first, sorted by the element."""
    counts = [int(row.max(initial=0)) + 1 for row in programs]
    keys = _flat(numpy.concatenate([element[None], programs]), (0, *counts))
    _, first = numpy.unique(keys, return_index=True)
    return first


def _twice(touched: Array, pairs: Array, elements: Array, rank: int) -> tuple[Touch, Touch] | None:
    """Find touches of one element by two programs."""
    same = numpy.flatnonzero(numpy.diff(elements) == 0)
    if not len(same):
        return None
    return _touch(touched[:, pairs[same[0]]], rank), _touch(touched[:, pairs[same[0] + 1]], rank)


def _touch(column: Array, rank: int) -> Touch:
    numbers = tuple(int(each) for each in column)
    return Touch(numbers[:rank], numbers[rank:])

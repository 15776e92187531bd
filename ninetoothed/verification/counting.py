"""Count, with the numbers of a call, which programs store to each element of a tensor, or read it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy

from ninetoothed.expr import Expr, Facts
from ninetoothed.races.points import Array, Points, evaluate
from ninetoothed.races.site import Site, Space

# How many touches are listed at most.
_MOST = 1 << 20


@dataclass(frozen=True)
class Touch:
    """One touch of an element: its indices, and the program and the lane of its tile that touch it."""

    element: tuple[int, ...]
    program: tuple[int, ...]
    lane: tuple[int, ...]


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


@dataclass(frozen=True, eq=False)
class _Listed:
    """Touches of some sites, a column each: the element's indices, the program's, the site and the point of it."""

    table: Array
    sites: Sequence[Site]
    points: Sequence[Mapping[str, Array]]
    rank: int

    def __getitem__(self, column: int) -> Touch:
        *numbers, site, point = (int(each) for each in self.table[:, column])
        lane = (int(self.points[site][lane.name][point]) for lane in self.sites[site].lanes)
        return Touch(tuple(numbers[: self.rank]), tuple(numbers[self.rank :]), tuple(lane))


def count(sites: Sequence[Site], space: Space, sizes: Sequence[Expr], values: Mapping[str, int]) -> Counts | None:
    """Count all touches of some sites; None where a run decides on them, or where they are too many."""
    numbers = {name: value for name, value in values.items() if name not in space.axes}
    shape = tuple(int(size.evaluate(numbers)) for size in sizes)
    space, left, tables = space.with_numbers(numbers), _MOST, list[Array]()
    points: list[Mapping[str, Array]] = []
    for site in sites:
        found = None if site.conditions or site.is_pointed else _points(site, space, numbers, left)
        if found is None:
            return None
        own, columns = found
        last: Array = numpy.arange(columns.shape[1])
        tables.append(numpy.concatenate([columns, numpy.stack([numpy.full_like(last, len(points)), last])]))
        points.append(own)
        left -= columns.shape[1]
    rank = len(shape)
    listed = _Listed(numpy.concatenate(tables, axis=1), sites, points, rank)
    touched = listed.table
    is_inside = ((touched[:rank] >= 0) & (touched[:rank] < numpy.array(shape, int).reshape(-1, 1))).all(0)
    outside = None if is_inside.all() else listed[int(numpy.flatnonzero(~is_inside)[0])]
    inside = numpy.flatnonzero(is_inside)
    element, programs = _flat(touched[:rank, inside], shape), touched[rank:-2, inside]
    pairs = _distinct(element, programs)
    elements = element[pairs]
    counted = numpy.bincount(elements, minlength=math.prod(shape)).reshape(shape)
    apart = tuple(bool((numpy.diff(element[_distinct(element, each[None])]) != 0).all()) for each in programs)
    same = numpy.flatnonzero(numpy.diff(elements) == 0)
    twice = (listed[inside[pairs[same[0]]]], listed[inside[pairs[same[0] + 1]]]) if len(same) else None
    return Counts(counted, outside, twice, apart)


def _points(
    site: Site, space: Space, numbers: Mapping[str, int], most: int
) -> tuple[Mapping[str, Array], Array] | None:
    """List the points of a site, and of each, in a column, the indices of the element and of the program."""
    facts = space.facts(Facts(), (site,))
    site = site.with_numbers(numbers, facts)
    found = Points.of(site, space, facts, most=most)
    if not found.is_complete or not site.named <= found.points.keys():
        return None
    total = len(found.points[""])
    rows = [*(evaluate(e, found.points) for e in site.place), *(found.points[axis] for axis in space.axes)]
    columns = numpy.zeros((len(rows), total), int)
    for row, values in zip(columns, rows, strict=True):
        row[:] = values
    return found.points, columns


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

"""List the points at which a site touches memory, with the numbers of a call: all of them, or some of many.

A point is a number for each program index, round and lane.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy

from ninetoothed.expr import Expr, Facts, Range
from ninetoothed.expr.arrays import Arrays
from ninetoothed.expr.intervals import bounds_of_range
from ninetoothed.races.site import Site, Space

# How many points of one site are counted at most, unless more are asked for; of how many of a larger one.
COMPLETE = 1 << 15
SOME = 1 << 13
Array = Any


@dataclass(frozen=True, eq=False)
class Points:
    """The touches of one site that are counted.

    points: values of each name, over touches. is_complete: whether these are all. is_sure: whether each happens.
    """

    points: dict[str, Array]
    is_complete: bool
    is_sure: bool

    @classmethod
    def of(
        cls, site: Site, space: Space, facts: Facts, ending: frozenset[str] = frozenset(), most: int = COMPLETE
    ) -> Points:
        """Choose values for a site's names: all if they are at most `most`, else some.

        ending: the rounds of which only the last counts.
        """
        ends, is_bounded = {}, True
        for name in (*space.axes, *site.rounds, *(lane.name for lane in site.lanes)):
            is_last = name in ending
            known = facts.ranges.get(name, Range(0, 0))
            low, high = bounds_of_range(known, facts)
            is_open = not is_last and (low is None or high is None)
            is_bounded &= not is_open
            low = low or 0
            high = low + 3 if is_open or high is None else high
            ends[name] = (high, high, 1) if is_last else (low, high, known.multiple_of)
        points, is_small = _chosen(ends, most)
        if not is_small:
            points = _with_meetings(site, points, ends)
        happens: Array = numpy.ones(len(next(iter(points.values()))), bool)
        is_read = True
        for guard in site.guards:
            if not guard.variables <= points.keys():
                # An index that only a run knows is taken to be within the tensor.
                is_read &= guard.index in site.place
                continue
            index = evaluate(guard.index, points)
            happens = happens & ((index >= 0) if guard.lower else True)
            happens = happens & ((index < evaluate(guard.size, points)) if guard.upper else True)
        kept = numpy.flatnonzero(happens)
        points = {name: column[kept] for name, column in points.items()}
        # Of rounds that go to places that a run gives, another may come to the same place later.
        is_sure = is_bounded and is_read and site.is_certain and site.behind.isdisjoint(site.rounds)
        return cls(points, is_bounded and is_small, is_sure)


def _chosen(ends: dict[str, tuple[int, int, int]], complete: int) -> tuple[dict[str, Array], bool]:
    """Return values of all names, combined: all where they are few, else the first and the last of each."""
    counts = {name: max((high - low) // step + 1, 0) for name, (low, high, step) in ends.items()}
    is_small = math.prod(counts.values()) <= complete
    budget, most = SOME, dict(counts)
    for position, name in enumerate(sorted(counts, key=lambda name: counts[name])):
        if not is_small:
            most[name] = min(counts[name], max(2, int(budget ** (1 / (len(counts) - position)))))
            budget = max(budget // max(most[name], 1), 1)
    columns = {}
    for name, (low, _, step) in ends.items():
        first = (most[name] + 1) // 2
        numbers = range(counts[name])
        columns[name] = numpy.array([*numbers[:first], *numbers[first:][-(most[name] - first) :]][: most[name]], int)
        columns[name] = columns[name] * step + low
    grids = numpy.meshgrid(*columns.values(), indexing="ij")
    # Without a name there is one point, too.
    flat = {name: grid.reshape(-1) for name, grid in zip(columns, grids, strict=True)}
    return {"": numpy.zeros(grids[0].size if grids else 1, int), **flat}, is_small


def _with_meetings(site: Site, points: dict[str, Array], ends: dict[str, tuple[int, int, int]]) -> dict[str, Array]:
    """Add points that meet: where one name more and another less give the same place."""
    names = [name for name, (low, high, _) in ends.items() if high > low]
    base = {name: low for name, (low, _, _) in ends.items()}
    rows: list[dict[str, int]] = []
    forms = [e.linear(names) for e in site.place]
    for a, b in itertools.combinations(names, 2):
        moves = set()
        for form in forms:
            own = [form[0][name] for name in (a, b)] if form is not None else []
            if own and all(each.is_constant and each != 0 for each in own):
                x, y = (each.constant for each in own)
                moves.add((y // math.gcd(x, y), -x // math.gcd(x, y)))
        for x, y in moves:
            steps = {a: x, b: y} if x > 0 else {a: -x, b: -y}
            for corner in (0, 1):
                start = dict(base)
                for name, step in steps.items():
                    low, high, _ = ends[name]
                    start[name] = (low if step > 0 else low - step) if not corner else (high - max(step, 0))
                rows += [start, {**start, **{name: start[name] + step for name, step in steps.items()}}]
    inside = [row for row in rows if all(ends[name][0] <= row[name] <= ends[name][1] for name in ends)]
    return {
        name: numpy.concatenate((column, numpy.array([row.get(name, 0) for row in inside], int)))
        for name, column in points.items()
    }


def evaluate(e: Expr, points: dict[str, Any]) -> Any:
    """Compute an expression at many points at once."""
    return e.fold(Arrays(points))

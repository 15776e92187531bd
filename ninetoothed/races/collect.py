"""List what an application touches of the parameters that it stores to, and ask what no proof answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ninetoothed import ir
from ninetoothed.dtypes import PointerType
from ninetoothed.expr import Expr, Facts, Range
from ninetoothed.language.primitive import Effect
from ninetoothed.races.footprints import Footprints, TensorMemory
from ninetoothed.races.integers import Integers
from ninetoothed.races.question import Question
from ninetoothed.races.site import Site, Space
from ninetoothed.races.values import Values
from ninetoothed.races.walk import Around, Walk


def survey(
    body: ir.Block, memories: Mapping[str, TensorMemory], axes: Mapping[str, tuple[Expr, Expr]], facts: Facts
) -> Footprints:
    """List the sites of a program, and keep the questions that are left to the numbers of a call.

    axes: how many programs there are along each, and how many for the smallest blocks.
    """
    producers = {result: operation for operation in ir.walk(body) for result in ir.results(operation)}
    walked = Walk(Integers(producers, facts), tuple(axes))
    walked.block(body, Around())
    counts, smallest = ({axis: own[i] for axis, own in axes.items()} for i in (0, 1))
    found = _Found(body, walked, tuple(axes), _changed(body))
    sites, loaded = found.located()
    space = Space(smallest, counts, _ranges(walked, sites), loaded)
    questions: list[Question] = []
    for name in dict.fromkeys(site.parameter for site in sites if site.is_store):
        own = [site for site in sites if site.parameter == name]
        # Places that pointers name are distances: with them all are.
        placed = own if not any(site.is_pointed for site in own) else [memories[name].flat(site) for site in own]
        space = replace(space, unique=frozenset(loaded) if memories[name].unique_indices else frozenset())
        if Question(name, tuple(placed), space, facts).left():
            placed = [replace(found.with_keys(site), place=at.place) for site, at in zip(own, placed, strict=True)]
            question = Question(name, tuple(placed), space, facts)
            questions += [question] if question.left() else []
    return Footprints(
        tuple(questions),
        sites,
        memories,
        found.changed,
        _waits(body, producers),
        any(isinstance(each, ir.Apply) and each.primitive.effect is Effect.ORDERS for each in ir.walk(body)),
        replace(space, unique=frozenset()),
        facts,
    )


def _changed(body: ir.Block) -> frozenset[str]:
    """Return the parameters that atomic functions change."""
    applied = (each for each in ir.walk(body) if isinstance(each, ir.Apply))
    types = (each.operands[0].type.dtype for each in applied if each.primitive.effect is Effect.UPDATES)
    return frozenset(type.parameter for type in types if isinstance(type, PointerType))


def _ranges(walked: Walk, sites: Iterable[Site]) -> dict[str, Range]:
    """Return the ranges of rounds, of lanes and of numbers of run time, those of rounds first."""
    lanes = {lane.name: Range(0, lane.count - 1) for site in sites for lane in site.lanes}
    named = frozenset[str]().union(*(site.named for site in sites))
    known = walked.integers.ranges
    return {
        **walked.ranges,
        **lanes,
        **{name: known.get(name, Range()) for name in sorted(named & walked.loaded.keys())},
    }


@dataclass(frozen=True)
class _Found:
    """Find what decides on numbers of run time, and on what is stored, where that is asked for.

    changed: the parameters that atomic functions change.
    """

    body: ir.Block
    walked: Walk
    programs: tuple[str, ...]
    changed: frozenset[str]

    @cached_property
    def _values(self) -> Values:
        values = Values(self.walked.integers, self.walked.rounds, self.programs, self.changed)
        values.run(self.body)
        return values

    def located(self) -> tuple[tuple[Site, ...], dict[str, tuple[Expr, ...]]]:
        """Return the sites, with what their places depend on, and what decides on each number of run time there."""
        named = frozenset[str]().union(*(site.named for site in self.walked.sites)) & self.walked.loaded.keys()
        loaded = {name: _sorted(self._values.keys(self.walked.loaded[name])) for name in sorted(named)}
        behind = {name: frozenset().union(*(key.variables for key in keys)) for name, keys in loaded.items()}
        sites = (
            replace(site, behind=frozenset().union(*(behind[name] for name in site.named & named)))
            for site in self.walked.sites
        )
        return tuple(sites), loaded

    def with_keys(self, site: Site) -> Site:
        """Add to a store what decides on its value."""
        if site.value is None:
            return site
        stored = {each.parameter for each in self.walked.sites if each.is_store} | self.changed
        tag, keys = self._values.formula(site.value, stored)
        trips = self._values.of_expressions(self.walked.trips_of(site))
        # How often a `while` goes round follows from what decides on its condition.
        hidden = [name for name in site.rounds if name not in site.mentioned]
        trips = trips.union(
            *(self._values.keys(self.walked.going[name]) for name in hidden if name in self.walked.going)
        )
        if hidden:
            # Which round is the last that stores follows from the conditions, too.
            trips = trips.union(*(self._values.keys(condition) for condition in site.in_rounds))
        return replace(site, keys=(*keys, *_sorted(trips if keys else ())), tag=tag)


def _sorted(keys: Iterable[Expr]) -> tuple[Expr, ...]:
    return tuple(sorted(keys, key=lambda e: e.text))


def _waits(body: ir.Block, producers: Mapping[ir.Value, ir.Operation]) -> ir.Operation | None:
    """Find where programs wait for each other: what an atomic function gives decides on a branch or a loop."""
    found = {
        result
        for operation in ir.walk(body)
        if isinstance(operation, ir.Apply) and operation.primitive.effect is Effect.UPDATES
        for result in operation.results
    }
    before = 0
    while found and before != len(found):
        before = len(found)
        for operation in ir.walk(body):
            if not found.isdisjoint(ir.operands(operation)):
                found.update(ir.results(operation))
                found.update(operation.arguments if isinstance(operation, ir.Loop) else ())
    decided = (each for each in ir.walk(body) if isinstance(each, ir.If | ir.While) and each.condition in found)
    return next(decided, None)

"""Ask whether the sites of one parameter race: by proof, for all sizes or those of a call, else by counting."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ninetoothed import ir
from ninetoothed.arrangement.guards import Guard
from ninetoothed.expr import Expr, Facts, bounds, var
from ninetoothed.races.enumeration import Clash, enumerate_sites
from ninetoothed.races.equalities import Equalities, variables
from ninetoothed.races.site import Site, Space, inside


@dataclass(frozen=True)
class RaceVerdict:
    """The answer to a question that no proof answers.

    clash: two touches of one element that race; None where there may be some. location: of a store in question.
    is_by_index: whether what a run gives decides on the place of a store.
    """

    clash: Clash | None
    location: ir.SourceLocation | None
    is_by_index: bool = False


@dataclass(frozen=True, eq=False)
class Question:
    """The sites of one parameter, in the order in which a program comes to them, and the names they are made of."""

    parameter: str
    sites: tuple[Site, ...]
    space: Space
    facts: Facts
    _answers: dict[tuple[int | None, ...], RaceVerdict | None] = field(default_factory=dict)
    _inside: dict[tuple[tuple[Guard, ...], Facts], Facts] = field(default_factory=dict)

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The sizes on which the answer depends."""
        space, names = self.space, set[str]()
        for site in self.sites:
            names |= site.mentioned.union(*(e.variables for e in (*site.keys, *site.order)))
        ends = [e for known in space.ranges.values() for e in (known.lo, known.hi) if e is not None]
        loaded = [key for keys in space.loaded.values() for key in keys]
        names.update(*(e.variables for e in (*space.axes.values(), *space.counts.values(), *ends, *loaded)))
        return tuple(sorted(names - space.axes.keys() - space.ranges.keys()))

    def answer(self, values: Mapping[str, int]) -> RaceVerdict | None:
        """Decide with the numbers of a call; None where nothing races."""
        # Names without a value are known to a run alone.
        key = tuple(values.get(name) for name in self.sizes)
        if key not in self._answers:
            if len(self._answers) > _REMEMBERED:
                self._answers.clear()
            numbers = {name: values[name] for name in self.sizes if name in values}
            self._answers[key] = self.with_numbers(numbers)._decided()
        return self._answers[key]

    def with_numbers(self, values: Mapping[str, int]) -> Question:
        """Put the numbers of a call for sizes."""
        space = self.space.with_numbers(values)
        facts = space.facts(Facts(), self.sites)
        sites = tuple(site.with_numbers(values, facts) for site in self.sites)
        return Question(self.parameter, sites, space, Facts())

    def _decided(self) -> RaceVerdict | None:
        left = self.left()
        if not left:
            return None
        clash, is_complete = enumerate_sites(self.sites, self.space)
        store = next(site for site in left if site.is_store)
        if clash is None:
            return None if is_complete else self._undecided(store)
        return RaceVerdict(clash, clash.sites[0].location) if clash.is_certain else self._undecided(clash.sites[0])

    def _undecided(self, store: Site) -> RaceVerdict:
        given = self.space.loaded.keys() - self.space.unique
        return RaceVerdict(None, store.location, not given.isdisjoint(self._in_place(store)))

    def left(self) -> tuple[Site, ...]:
        """Return the sites of which no proof tells that they do not race with each other, or each with itself."""
        found: dict[Site, None] = {}
        sites = [site for site in self.sites if self.space.is_reached(site)]
        for site in sites:
            if site.is_store and not self._is_harmless(site):
                found[site] = None
        for first, second in itertools.combinations(sites, 2):
            if (first.is_store or second.is_store) and not self._are_apart(first, second):
                found |= {first: None, second: None}
        return tuple(found)

    def shared(self, pairs: Iterable[tuple[Site, Site]], names: Sequence[str]) -> list[str]:
        """Return the names that are one number in both of each two touches of one element, as far as is proved."""
        left = list(names)
        for first, second in pairs:
            known = self._equalities(first, second) if left else None
            left = [] if known is None else [name for name in left if known.holds(var(name))]
        return left

    def _equalities(self, first: Site, second: Site) -> Equalities:
        own = (first,) if first is second else (first, second)
        facts = self.space.facts(self.facts, own)
        names = frozenset((*self.space.axes, *self.space.ranges, *first.rounds, *second.rounds))
        sides = [self._reached(site, facts) for site in (first, second)]
        known = Equalities(sides[0], sides[1], names, self.space.loaded)
        known.learn(variables(self._final(first, second)))
        if first.place == second.place:
            # No element is stored to twice through indices that are declared unique: they were read at one place.
            given = (name for name in sorted(self.space.unique) if name in self._in_place(first))
            known.learn((key, key) for name in given for key in self.space.loaded[name])
        known.learn(zip(first.place, second.place, strict=True))
        pinned = _pinned(first, sides[0])
        known.learn((e, e) for e, number in _pinned(second, sides[1]).items() if pinned.get(e) == number)
        return known

    def _reached(self, site: Site, facts: Facts) -> Facts:
        """Assume that a site is reached, by facts that remember what was proved for other pairs."""
        key = site.guards, facts
        if key not in self._inside:
            self._inside[key] = inside(site, facts)
        return self._inside[key]

    def _final(self, first: Site, second: Site) -> Iterator[str]:
        """Yield the rounds that do not matter to a store, of which only the last counts."""
        if first is second:
            yield from (name for name in first.rounds if name not in first.mentioned)

    def _is_harmless(self, site: Site) -> bool:
        """Tell whether a store puts the same number wherever programs or lanes meet."""
        known = self._equalities(site, site)
        if all(map(known.holds, site.keys)) and site.tag is not None:
            return True
        if not all(known.holds(axis) for axis, _ in variables(self.space.axes)):
            return False
        # One program comes to the same element in several rounds one after the other.
        known.learn(variables(site.rounds))
        return all(known.holds(e) for e, _ in variables(lane.name for lane in site.lanes)) or (
            site.tag is not None and all(map(known.holds, site.keys))
        )

    def _are_apart(self, first: Site, second: Site) -> bool:
        """Tell whether no program touches by the one site what another touches by the other."""
        if first.is_store and second.is_store and (_covers(second, first) or self._are_unique(first, second)):
            return True
        known = self._equalities(first, second)
        return known.is_impossible or all(known.holds(axis) for axis, _ in variables(self.space.axes))

    def _are_unique(self, *stores: Site) -> bool:
        """Tell whether two stores are declared not to meet: both are through indices that a run gives."""
        return not any(self.space.unique.isdisjoint(self._in_place(store)) for store in stores)

    def _in_place(self, site: Site) -> frozenset[str]:
        return frozenset().union(*(e.variables for e in site.place))


def _pinned(site: Site, facts: Facts) -> dict[Expr, int]:
    """Return the indices of which what is known where a site is reached leaves one number, and that."""
    found = ((guard.index, bounds(guard.index, facts)) for guard in site.guards)
    return {index: low for index, (low, high) in found if low is not None and low == high}


_REMEMBERED = 64


def _covers(later: Site, earlier: Site) -> bool:
    """Tell whether a store always overwrites what another stored: then the later counts."""
    is_after = all(a.is_constant for a in (*later.order, *earlier.order)) and len(later.order) <= len(earlier.order)
    is_same = (
        later.place == earlier.place
        and set(later.guards) <= set(earlier.guards)
        and later.conditions <= earlier.conditions
    )
    return is_after and is_same

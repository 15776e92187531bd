"""Keep what a program touches, to tell of two parameters that are the same memory in a call whether that is harmless.

y = x + 1, tiles alike             in place: no program touches what another stores
y = x + 1, tiles that overlap      programs read what others may have written
y = x + 1; z = x * y               one program reads x again, and with it what it stored to y
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ninetoothed import ir
from ninetoothed.expr import Expr, Facts, offset
from ninetoothed.races.enumeration import meets_again
from ninetoothed.races.question import Question
from ninetoothed.races.site import Site, Space


@dataclass(frozen=True)
class TensorMemory:
    """The memory of a parameter: its name, sizes and strides.

    unique_indices: whether the indices that a run gives are declared to reach no element twice.
    """

    name: str
    sizes: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    unique_indices: bool = False

    def flat(self, site: Site) -> Site:
        """Give a place as a pointer does: by the distance from the first element."""
        if site.is_pointed:
            return site
        return replace(site, place=(offset(site.place, self.strides),))


@dataclass(frozen=True, eq=False)
class Footprints:
    """All sites of a program, in the order in which it comes to them.

    questions: what the numbers of each call must answer. changed: the parameters that atomic functions change.
    waiting: a branch or a loop by which programs wait for each other. orders: whether threads do.
    """

    questions: tuple[Question, ...]
    sites: tuple[Site, ...]
    memories: Mapping[str, TensorMemory]
    changed: frozenset[str]
    waiting: ir.Operation | None
    orders: bool
    space: Space
    facts: Facts
    _proofs: dict[tuple[str, str], bool] = field(default_factory=dict)
    _asked: dict[tuple[str, str], Question] = field(default_factory=dict)
    _later: dict[tuple[str, str], tuple[tuple[Site, Site], ...]] = field(default_factory=dict)

    def are_apart(self, a: str, b: str, values: Mapping[str, int]) -> bool:
        """Tell whether no program touches of one parameter what another stores to the other, both at one address."""
        if not self.changed.isdisjoint((a, b)):
            return False
        if self._are_alike(a, b, values) and self._are_proved(a, b):
            return True
        if (a, b) not in self._asked:
            self._asked[a, b] = self._flat(self._sites_of(a, b))
        return self._asked[a, b].answer(values) is None

    def between(self, a: str, b: str, distance: int) -> Question:
        """Ask of two parameters that share memory: the first element of one lies so many after that of the other."""
        flat = (self.memories[site.parameter].flat(site) for site in self._sites_of(a, b))
        moved = (replace(each, place=(each.place[0] + distance,)) if each.parameter == a else each for each in flat)
        return Question("", tuple(moved), self.space, self.facts)

    def read_again(self, a: str, b: str, values: Mapping[str, int]) -> tuple[Site, Site] | None:
        """Find a store to one parameter, and a load of the other that reads the same element after it."""
        if (a, b) not in self._later:
            self._later[a, b] = () if self.waiting or self.orders else tuple(self._reads_after_stores(a, b))
        for pair in self._later[a, b]:
            question = self._flat(pair).with_numbers(values)
            store, load = question.sites
            if meets_again(store, load, question.space):
                return store, load
        return None

    def _reads_after_stores(self, a: str, b: str) -> Iterator[tuple[Site, Site]]:
        for store, load in itertools.product(self.sites, self.sites):
            if store.is_store and not load.is_store and {store.parameter, load.parameter} == {a, b}:
                if _may_follow(load, store):
                    yield store, load

    def _are_alike(self, a: str, b: str, values: Mapping[str, int]) -> bool:
        """Tell whether indices of one tensor mean the same memory as indices of the other."""
        forms = [
            [e.subs(values) for e in (*memory.sizes, *memory.strides)]
            for memory in (self.memories[a], self.memories[b])
        ]
        return forms[0] == forms[1] and not any(site.is_pointed for site in self._sites_of(a, b))

    def _sites_of(self, *names: str) -> Iterator[Site]:
        return (site for site in self.sites if site.parameter in names)

    def _are_proved(self, a: str, b: str) -> bool:
        if (a, b) not in self._proofs:
            question = Question(b, tuple(self._sites_of(a, b)), self.space, self.facts)
            self._proofs[a, b] = not question.left()
        return self._proofs[a, b]

    def _flat(self, sites: Iterable[Site]) -> Question:
        """Ask of places as distances from the first element."""
        flat = (self.memories[site.parameter].flat(site) for site in sites)
        return Question("", tuple(flat), self.space, self.facts)


def _may_follow(later: Site, earlier: Site) -> bool:
    """Tell whether a program may come to a site after it was at another: a loop around both leads back."""
    for own, other in zip(later.order, earlier.order, strict=False):
        if own != other:
            return not (own.is_constant and other.is_constant) or own.constant > other.constant
        if not own.is_constant:
            return True
    return True

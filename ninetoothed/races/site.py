"""Describe which elements an operation touches, in expressions of the program, the rounds of loops and the lane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.arrangement.guards import Guard
from ninetoothed.expr import Expr, Facts, Range, simplify


@dataclass(frozen=True, eq=False)
class Site:
    """One load or store of a parameter.

    value: what is stored; None of a load.
    place: the indices of an element; of a pointer, how many elements it is after the first. guards: the access happens
        where all hold.
    rounds: the counters of the loops around it. lanes: those of its tile.
    order: where it stands among the operations of a program: positions and counters, the outermost first.
    is_certain: whether nothing but its guards keeps programs from touching it.
    conditions: what else decides that it happens, which only a run knows, each with the side that it is on.
    in_rounds: those of them that each round of a loop asks anew.
    behind: what the numbers of run time in its place and its guards depend on.
    keys, tag: the expressions from which the stored number is computed, and how: of `x[i] * 2`, (i,) and a number for
        "x[...] * 2". Two stores of equal keys and tags store equal numbers.
    """

    parameter: str
    value: ir.Value | None
    place: tuple[Expr, ...]
    is_pointed: bool
    guards: tuple[Guard, ...]
    rounds: tuple[str, ...]
    lanes: tuple[ir.Lane, ...]
    order: tuple[Expr, ...]
    is_certain: bool
    conditions: frozenset[tuple[ir.Value, bool]]
    in_rounds: tuple[ir.Value, ...]
    location: ir.SourceLocation | None
    behind: frozenset[str] = frozenset()
    keys: tuple[Expr, ...] = ()
    tag: object = None

    @property
    def is_store(self) -> bool:
        """Tell whether it stores."""
        return self.value is not None

    @property
    def named(self) -> frozenset[str]:
        """The names in its place and its guards."""
        return frozenset().union(*(e.variables for e in self.place), *(guard.variables for guard in self.guards))

    @property
    def mentioned(self) -> frozenset[str]:
        """The names that its place and its guards depend on."""
        return self.named | self.behind

    def with_numbers(self, values: Mapping[str, int], facts: Facts) -> Site:
        """Put the numbers of a call for sizes."""

        def number(e: Expr) -> Expr:
            return simplify(e.subs(values), facts)

        guards = tuple(guard.at(number) for guard in self.guards)
        place, order, keys = (tuple(map(number, each)) for each in (self.place, self.order, self.keys))
        return replace(self, place=place, guards=guards, order=order, keys=keys)


@dataclass(frozen=True, eq=False)
class Space:
    """The names that sites are made of.

    axes: the program indices, and how many there are along each: where no place depends on one, for the smallest
        blocks, since no choice of blocks makes a race legal. counts: the same as launched.
    ranges: of rounds, of lanes and of numbers of run time. loaded: of each number of run time, what decides on it.
    unique: those numbers of run time through which no element is stored to twice, as is declared.
    """

    axes: Mapping[str, Expr]
    counts: Mapping[str, Expr]
    ranges: Mapping[str, Range]
    loaded: Mapping[str, tuple[Expr, ...]]
    unique: frozenset[str] = frozenset()

    def extent(self, axis: str, mentioned: frozenset[str]) -> Expr:
        """Tell how many programs to count along an axis, for sites that depend on these names."""
        return self.counts[axis] if axis in mentioned else self.axes[axis]

    def is_reached(self, site: Site) -> bool:
        """Tell whether some round may come to a site: none does where a loop around it has none."""
        own = [self.ranges[name] for name in site.rounds if name in self.ranges]
        spans = [known.hi - known.lo for known in own if known.lo is not None and known.hi is not None]
        return not any(span.is_constant and span.constant < 0 for span in spans)

    def with_numbers(self, values: Mapping[str, int]) -> Space:
        """Put the numbers of a call for sizes."""

        def number(e: Expr | None) -> Expr | None:
            return None if e is None else simplify(e.subs(values), _NOTHING)

        axes, counts = ({a: e.subs(values) for a, e in own.items()} for own in (self.axes, self.counts))
        ranges = {name: Range(number(r.lo), number(r.hi), r.multiple_of) for name, r in self.ranges.items()}
        loaded = {name: tuple(key.subs(values) for key in keys) for name, keys in self.loaded.items()}
        return Space(axes, counts, ranges, loaded, self.unique)

    def facts(self, start: Facts, sites: tuple[Site, ...]) -> Facts:
        """Bind the names that these sites are made of."""
        mentioned = frozenset().union(*(site.mentioned for site in sites))
        facts = start
        for axis in self.axes:
            facts = facts.bind(axis, 0, self.extent(axis, mentioned) - 1)
        for name, known in self.ranges.items():
            facts = facts.bind(name, known.lo, known.hi, known.multiple_of)
        return facts


def inside(site: Site, facts: Facts) -> Facts:
    """Assume that a site is reached."""
    # Facts of their own: in those that grow by assumptions, forms do not depend on them.
    return Facts(facts.ranges, (*facts.assumptions, *(guard.range for guard in site.guards))) if site.guards else facts


_NOTHING = Facts()

"""Prove that the stores of a program reach every element of a tensor, whatever its sizes.

    y[64 * program_0 + lane_0]          element i by lane i % 64 of program i // 64, of which there are cdiv(n, 64)
    y[t // n, t % n]                    element (i, j) where t is n * i + j
    y[128 * program_0 + lane_0]         lanes reach 63: nothing stores element 64

A place is inverted: for the element with the indices `element_0`, ... a program, lanes and rounds are found that store
it, digit by digit, and it is proved that they exist and that the store's guards hold for them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from ninetoothed.arrangement.guards import Guard
from ninetoothed.expr import Expr, Facts, FloorDiv, Mod, Range, const, is_nonnegative, simplify, var
from ninetoothed.expr.algebra import of_atom
from ninetoothed.races.site import Site, Space

# How many parts of a tensor are looked at where several stores share it out.
_PARTS = 16


def are_covered(sites: Sequence[Site], space: Space, facts: Facts, sizes: Sequence[Expr]) -> bool:
    """Tell whether it is proved that each element is stored by one of these sites.

    facts: of sizes, of which none is taken to be 0. The tensor is cut where stores begin and end along a dimension.
    """
    sites = [site for site in sites if not site.conditions and not site.is_pointed]
    space = _with_last_rounds(sites, space)
    known = reduce(_at_least_one, frozenset().union(*(size.variables for size in sizes)), facts)
    parts = list(itertools.islice(_parts(sites, space, known, sizes), _PARTS + 1))
    return bool(sites) and len(parts) <= _PARTS and all(_is_stored(sites, space, part) for part in parts)


def _with_last_rounds(sites: Sequence[Site], space: Space) -> Space:
    """Count a round more where another site is what that round would be: a loop may leave its last one behind it."""
    ranges = dict(space.ranges)
    for site, other in itertools.permutations(sites, 2):
        for name in site.rounds:
            last = space.ranges[name].hi
            if last is not None and tuple(e.subs({name: last + 1}) for e in site.place) == other.place:
                if site.guards == other.guards and name not in other.rounds:
                    ranges[name] = Range(space.ranges[name].lo, last + 1)
    return replace(space, ranges=ranges)


def _at_least_one(facts: Facts, name: str) -> Facts:
    known = facts.range_of(name)
    return facts.bind(name, max(1, known.multiple_of), known.hi, known.multiple_of)


def _parts(sites: Sequence[Site], space: Space, facts: Facts, sizes: Sequence[Expr]) -> Iterator[Facts]:
    """Cut a tensor where the places of some site begin: what is known of the indices in each part."""
    ends = []
    for dim, size in enumerate(sizes):
        starts = dict.fromkeys(_start(site.place[dim], site, space) for site in sites)
        inner = [each for each in starts if each is not None and is_nonnegative(each - 1, facts)]
        cuts = _in_order([each for each in inner if is_nonnegative(size - 1 - each, facts)], facts)
        ends.append(list(itertools.pairwise((const(0), *cuts, size))))
    for part in itertools.product(*ends):
        found = facts
        for dim, (low, high) in enumerate(part):
            found = found.bind(_element(dim), low, high - 1)
        yield found


def _start(place: Expr, site: Site, space: Space) -> Expr | None:
    """Find the index at which a site begins: what is left of its place where all counts are 0."""
    form = place.linear(_counts(site, space))
    return None if form is None else form[1]


def _in_order(expressions: list[Expr], facts: Facts) -> list[Expr]:
    """Sort expressions, as far as it is proved which is less; the others are left out."""
    found: list[Expr] = []
    for e in expressions:
        place = sum(is_nonnegative(e - other, facts) for other in found)
        if all(is_nonnegative(other - e - 1, facts) for other in found[place:]):
            found.insert(place, e)
    return found


def _is_stored(sites: Sequence[Site], space: Space, facts: Facts) -> bool:
    return any(_Inverse(site, space, facts).exists() for site in sites)


def _counts(site: Site, space: Space) -> tuple[str, ...]:
    """Return the names that a site counts with: program indices, rounds and lanes."""
    return (*space.axes, *site.rounds, *(lane.name for lane in site.lanes))


def _element(dim: int) -> str:
    return f"element_{dim}"


class _Inverse:
    """Find the counts with which a site stores the element of given indices.

    Quotients and remainders of a number, its digits, are found first, as counts of their own, and then the number:
    t // 12 = i and t % 12 = j where t is 12 * i + j.
    """

    def __init__(self, site: Site, space: Space, facts: Facts) -> None:
        self.site, self.facts = site, facts
        self.names = _counts(site, space)
        self.extents: dict[str, Expr] = {axis: space.extent(axis, site.mentioned) for axis in space.axes}
        for name in (*site.rounds, *(lane.name for lane in site.lanes)):
            known = space.ranges.get(name)
            if known is not None and known.lo == const(0) and known.hi is not None:
                self.extents[name] = known.hi + 1
        self.digits: dict[Expr, tuple[str, Digit]] = {}
        self.named = 0
        self.found: dict[str, Expr] = {}
        self.equal: list[tuple[Expr, Expr]] = []

    def exists(self) -> bool:
        """Tell whether there are such counts, in their ranges and where the guards hold."""
        self.equal = [(place, var(_element(dim))) for dim, place in enumerate(self.site.place)]
        pending = [(self._with_digits(place), target) for place, target in self.equal]
        while pending:
            solved = [pair for pair in pending if self._solve(*pair)]
            if not solved:
                return False
            pending = [pair for pair in pending if pair not in solved] + self._numbers()
        return all(map(self._is_in_range, self.names)) and all(map(self._is_met, self.site.guards))

    def _with_digits(self, e: Expr) -> Expr:
        """Put a count for each quotient and remainder that counts decide on."""
        total = const(0)
        for monomial, coefficient in e.terms:
            total += math.prod((self._count_of(atom) for atom in monomial), start=const(coefficient))
        return total

    def _count_of(self, atom: Any) -> Expr:
        digit, whole = _digit(atom), of_atom(atom)
        if digit is None or digit.number.variables.isdisjoint(self.names):
            return whole
        if whole not in self.digits:
            self.named += 1
            self.digits[whole] = f"digit_{self.named}", digit
        return var(self.digits[whole][0])

    def _solve(self, place: Expr, target: Expr) -> bool:
        """Find the counts with which a sum of counts, each times a number, is `target`; the largest number first."""
        own = (*self.names, *(name for name, _ in self.digits.values()))
        form = self._at(place).linear(own)
        if form is None:
            return False
        factors, rest = form
        pending = {name: factor for name, factor in factors.items() if factor != 0}
        left = self._simple(target - rest)
        if pending and all(self._is_nonnegative(-factor) for factor in pending.values()):
            pending, left = {name: -factor for name, factor in pending.items()}, self._simple(-left)
        if not self._is_nonnegative(left):
            return False
        found: dict[str, Expr] = {}
        while pending:
            name = self._largest(pending)
            if name is None:
                return False
            factor = pending.pop(name)
            found[name] = self._simple(left // factor)
            left = self._simple(left % factor)
        if not self._is_nonnegative(-left):
            return False
        self.found |= found
        return True

    def _largest(self, factors: Mapping[str, Expr]) -> str | None:
        """Return the name whose factor is proved to be the largest and positive; of equal ones, the first."""
        for name, factor in factors.items():
            others = (factor - other for key, other in factors.items() if key != name)
            if self._is_nonnegative(factor - 1) and all(map(self._is_nonnegative, others)):
                return name
        return None

    def _numbers(self) -> list[tuple[Expr, Expr]]:
        """Put together the numbers all of whose digits were found, and forget these."""
        numbers: dict[Expr, list[tuple[str, Digit]]] = {}
        for name, digit in self.digits.values():
            numbers.setdefault(digit.number, []).append((name, digit))
        whole = []
        for number, own in numbers.items():
            if all(name in self.found for name, _ in own):
                total = self._total(own)
                self.digits = {key: each for key, each in self.digits.items() if each[1].number != number}
                # Without a total the number stays unknown: none is equal to it.
                target = total if total is not None else const(-1)
                self.equal.append((number, target))
                whole.append((self._with_digits(number), target))
        return whole

    def _total(self, own: list[tuple[str, Digit]]) -> Expr | None:
        """Add up the digits of a number, from the last; None where one is missing, or larger than it can be."""
        total, unit, pending = const(0), const(1), list(own)
        while found := next((each for each in pending if each[1].unit == unit), None):
            pending.remove(found)
            value, modulus = self.found[found[0]], found[1].modulus
            total += unit * value
            if modulus is None:
                break
            if not self._is_nonnegative(modulus - 1 - value):
                return None
            unit = unit * modulus
        return None if pending else self._simple(total)

    def _is_in_range(self, name: str) -> bool:
        """Tell whether a count is within its range; one on which no place depends is 0."""
        value, extent = self.found.setdefault(name, const(0)), self.extents.get(name)
        return extent is not None and self._is_nonnegative(self._at(extent) - 1 - value)

    def _is_met(self, guard: Guard) -> bool:
        """Tell whether a guard holds for the element."""
        index = next((target for place, target in self.equal if place == guard.index), None)
        index = self._at(guard.index) if index is None else index
        above = not guard.upper or self._is_nonnegative(self._at(guard.size) - 1 - index)
        return above and (not guard.lower or self._is_nonnegative(index))

    def _at(self, e: Expr) -> Expr:
        return self._simple(e.subs(self.found))

    def _simple(self, e: Expr) -> Expr:
        return simplify(e, self.facts)

    def _is_nonnegative(self, e: Expr) -> bool:
        return is_nonnegative(self._simple(e), self.facts)


@dataclass(frozen=True)
class Digit:
    """The digit `number // unit % modulus` of a number; without a modulus, all that is before it."""

    number: Expr
    unit: Expr
    modulus: Expr | None


def _digit(atom: Any) -> Digit | None:
    """Read an atom as a digit; None if it is none."""
    modulus = None
    if isinstance(atom, Mod):
        number, modulus = atom.numerator, atom.denominator
        atom = number.sole_atom
        if not isinstance(atom, FloorDiv):
            return Digit(number, const(1), modulus)
    return Digit(atom.numerator, atom.denominator, modulus) if isinstance(atom, FloorDiv) else None

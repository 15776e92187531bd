"""Prove what two touches of one element have in common, by the digits of numbers.

    64 * p + lane == 64 * p' + lane'    lanes are below 64: p == p' and lane == lane'
    t // n == t' // n, t % n == t' % n  t == t'
    2 * p + lane == 2 * p' + lane'      lanes reach 3: nothing follows

Sites may be one and the same, of two programs, or two. A number of run time is the same where what decides on it is;
where that differs, nothing follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ninetoothed.expr import Expr, Facts, FloorDiv, Max, Min, Mod, Var, bounds, const, is_nonnegative, simplify, var
from ninetoothed.expr.algebra import build, of_atom
from ninetoothed.expr.atoms import Monomial

# How often known equalities are looked through again: as many as any chain of steps seen, and some more.
_PASSES = 6
Pair = tuple[Expr, Expr]


class Equalities:
    """Equalities between expressions of one site and of another, closed under what follows from them.

    names: those that may be other numbers in other programs. loaded: of the numbers of run time among them, what
    decides on each. is_impossible: whether they contradict each other.
    """

    def __init__(self, first: Facts, second: Facts, names: frozenset[str], loaded: Mapping[str, tuple[Expr, ...]]):
        self._facts = first, second
        self._names = names
        self._loaded = loaded
        self._pairs: dict[Pair, None] = {}
        self._same: set[Expr] = set()
        self.is_impossible = False

    def learn(self, pairs: Iterable[Pair]) -> None:
        """Add equalities, and what follows, unless they contradict each other: then all follows."""
        for pair in pairs:
            self._add(*pair)
        for _ in range(0 if self.is_impossible else _PASSES):
            before = len(self._pairs), len(self._same)
            for pair in tuple(self._pairs):
                self._take_apart(*pair)
            self._join()
            self._same.update(var(name) for name, keys in self._loaded.items() if all(map(self.holds, keys)))
            if self.is_impossible or before == (len(self._pairs), len(self._same)):
                break

    def holds(self, e: Expr) -> bool:
        """Tell whether an expression is proved to be one number in both."""
        return self.is_impossible or self._is_same(simplify(e, self._facts[0]))

    def _is_same(self, e: Expr, depth: int = 2) -> bool:
        if e in self._same or all(self._is_same_atom(atom, depth) for atom in e.atoms):
            return True
        rests = (e - known for known in self._same) if depth and len(e.terms) > 1 else ()
        return any(len(rest.terms) < len(e.terms) and self._is_same(rest, depth - 1) for rest in rests)

    def _is_same_atom(self, atom: Var | FloorDiv | Mod | Min | Max, depth: int) -> bool:
        if of_atom(atom) in self._same:
            return True
        if isinstance(atom, Var):
            return atom.name not in self._names
        return all(self._is_same(part, depth) for part in atom.operands)

    def _add(self, a: Expr, b: Expr) -> None:
        if (a, b) not in self._pairs and not self.is_impossible:
            self._pairs[a, b] = None
            self._same.update((a,) if a == b else ())
            self._take_apart(a, b)

    def _take_apart(self, a: Expr, b: Expr) -> None:
        """Find what follows from `a == b`: less what is the same on both sides, digit by digit."""
        own, other = dict(a.terms), dict(b.terms)
        common = [m for m, c in own.items() if m and other.get(m) == c and self._is_same(Expr(((m, 1),)))]
        if own.get(()) == other.get(()) is not None:
            common.append(())
        if common:
            rests = [build({m: c for m, c in terms.items() if m not in common}) for terms in (own, other)]
            self._add(rests[0], rests[1])
            return
        if self.is_impossible or self._are_apart(a, b):
            self.is_impossible = True
            return
        if not a.variables & self._names and not b.variables & self._names:
            return
        if all(c < 0 for e in (a, b) for m, c in e.terms if Expr(((m, c),)).variables & self._names):
            self._add(-a, -b)
            return
        if not self._divided(a, b):
            for unit in self._units(a, b):
                high, low = self._digits(a, unit), self._digits(b, unit)
                if self._are_below(unit, high[1], low[1]):
                    self._split(high, low)
                    return

    def _are_apart(self, a: Expr, b: Expr) -> bool:
        """Tell whether two sides cannot be equal: a number lies between them."""
        if a == b:
            return False
        middles = dict.fromkeys((self._fixed(a), self._fixed(b)))
        sides = tuple(zip((a, b), self._facts, strict=True))
        for (low, below), (high, above) in (sides, sides[::-1]):
            top, bottom = bounds(low, below)[1], bounds(high, above)[0]
            if top is not None and bottom is not None and top < bottom:
                return True
            if any(is_nonnegative(m - 1 - low, below) and is_nonnegative(high - m, above) for m in middles):
                return True
        return False

    def _fixed(self, e: Expr) -> Expr:
        """Return the terms that are the same in all programs."""
        return build({m: c for m, c in e.terms if not Expr(((m, c),)).variables & self._names})

    def _split(self, a: tuple[Expr, Expr], b: tuple[Expr, Expr]) -> None:
        for left, right in zip(a, b, strict=True):
            self._add(left, right)

    def _divided(self, a: Expr, b: Expr) -> bool:
        """Divide both sides by what all their terms have in common, unless that may be 0."""
        units = [self._unit(term) for term in (*a.terms, *b.terms)]
        if not units or any(each != units[0] for each in units) or units[0] == 1:
            return False
        if not is_nonnegative(units[0] - 1, self._facts[0]):
            return False
        self._add(a // units[0], b // units[0])
        return True

    def _unit(self, term: tuple[Monomial, int]) -> Expr:
        """Return the factor of a term that is the same in all programs."""
        monomial, coefficient = term
        sizes = tuple(atom for atom in monomial if not of_atom(atom).variables & self._names)
        return Expr(((sizes, abs(coefficient)),))

    def _units(self, a: Expr, b: Expr) -> Iterator[Expr]:
        units = dict.fromkeys(
            self._unit(term) for e in (a, b) for term in e.terms if Expr((term,)).variables & self._names
        )
        yield from (unit for unit in units if unit != 1)

    def _digits(self, e: Expr, unit: Expr) -> tuple[Expr, Expr]:
        """Write an expression as `unit * high + low`."""
        terms = [Expr((term,)) for term in e.terms]
        multiples = [term for term in terms if term.variables & self._names and term % unit == 0]
        high = sum((term // unit for term in multiples), start=const(0))
        return high, e - high * unit

    def _are_below(self, unit: Expr, *lows: Expr) -> bool:
        """Tell whether numbers lie in one range of `unit` numbers."""
        starts: dict[Expr, None] = {const(0): None}
        for low, facts in zip(lows, self._facts, strict=True):
            starts[self._fixed(low)] = None
            least = bounds(low, facts)[0]
            if least is not None:
                starts[const(least)] = None
        return any(
            all(
                is_nonnegative(low - start, facts) and is_nonnegative(start + unit - 1 - low, facts)
                for low, facts in zip(lows, self._facts, strict=True)
            )
            for start in starts
        )

    def _join(self) -> None:
        """Join quotients and remainders of one division."""
        for a, b in tuple(self._pairs):
            own, other = a.sole_atom, b.sole_atom
            if isinstance(own, Mod) and isinstance(other, Mod) and self._is_one(own.denominator, other.denominator):
                x, y = (atom.numerator // atom.denominator for atom in (own, other))
                if not self._are_equal(x, y):
                    x, y = (simplify(e, facts) for e, facts in zip((x, y), self._facts, strict=True))
                if self._are_equal(x, y):
                    self._add(own.numerator, other.numerator)

    def _are_equal(self, a: Expr, b: Expr) -> bool:
        """Tell whether two sides are known to be equal."""
        return (a, b) in self._pairs or self._is_one(a, b)

    def _is_one(self, a: Expr, b: Expr) -> bool:
        """Tell whether two sides are one expression, and one number."""
        return a == b and self._is_same(a)


def variables(names: Iterable[str]) -> tuple[Pair, ...]:
    """Return the equalities of variables."""
    return tuple((var(name), var(name)) for name in names)

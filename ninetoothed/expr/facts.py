"""What is known of variables, and what follows from it. A proof that is not found is never a proof of the contrary.

A proof of `e >= 0` replaces one variable or atom of `e` at a time by a bound that makes `e` smaller, until a constant
is left. Bounds may be symbolic (a lane is at most `size - 1`), so variables bound last are replaced first.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from types import MappingProxyType

from ninetoothed.expr.algebra import (
    Atom,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Monomial,
    Var,
    as_expr,
    const,
    maximum,
    minimum,
    of_atom,
    var,
)

_BUDGET = 60  # steps of one proof: enough for every arrangement seen, and a bound on the time of a hopeless one
_POOL, _SAMPLES = 64, 12  # draws that must not refute an inequality before a proof is tried


@dataclass(frozen=True)
class Range:
    """`lo <= x <= hi` (inclusive; `None`: unknown), and `x` is a multiple of `multiple_of`."""

    lo: Expr | int | None = None
    hi: Expr | int | None = None
    multiple_of: int = 1

    def __post_init__(self):
        object.__setattr__(self, "lo", None if self.lo is None else as_expr(self.lo))
        object.__setattr__(self, "hi", None if self.hi is None else as_expr(self.hi))

    @property
    def value(self) -> int | None:
        """The only value in the range, where there is just one."""
        one = self.lo is not None and self.lo.is_constant and self.lo == self.hi
        return self.lo.constant if one else None


@dataclass(frozen=True)
class Facts:
    """Ranges of variables, in the order in which they were bound, and expressions known to lie in a range."""

    ranges: Mapping[str, Range] = field(default_factory=dict)
    assumptions: tuple[tuple[Expr, Expr | None, Expr | None], ...] = ()
    parent: "Facts | None" = field(default=None, compare=False, repr=False)  # these facts, less the last assumption

    def __post_init__(self):
        object.__setattr__(self, "ranges", MappingProxyType(dict(self.ranges)))

    def __hash__(self):
        return hash((tuple(self.ranges.items()), self.assumptions))

    def __reduce__(self):
        return Facts, (dict(self.ranges), self.assumptions)

    def bind(self, name: str, lo=None, hi=None, multiple_of: int = 1) -> "Facts":
        ranges = {key: value for key, value in self.ranges.items() if key != name}
        return Facts({**ranges, name: Range(lo, hi, multiple_of)}, self.assumptions)

    def assume(self, expression, lo=None, hi=None) -> "Facts":
        lo, hi = (None if bound is None else as_expr(bound) for bound in (lo, hi))
        return Facts(self.ranges, (*self.assumptions, (as_expr(expression), lo, hi)), self)

    def range_of(self, name: str) -> Range:
        return self.ranges.get(name, _UNKNOWN)

    @cached_property
    def assumed(self) -> Mapping[Expr, tuple[tuple[Expr | None, Expr | None], ...]]:
        """`{e: ((lo, hi), ...)}` of the assumptions, constants moved from `e` to the bounds."""
        found: dict[Expr, tuple[tuple[Expr | None, Expr | None], ...]] = {}
        for known, lo, hi in self.assumptions:
            c = known.constant_term
            bound = (None if lo is None else lo - c, None if hi is None else hi - c)
            found[known - c] = (*found.get(known - c, ()), bound)
        return found

    @cached_property
    def bare(self) -> "Facts":
        """The ranges alone."""
        return (self.parent.bare if self.parent else Facts(self.ranges)) if self.assumptions else self

    @cached_property
    def pool(self) -> tuple[Mapping[str, int], ...]:
        """Some values of the variables for which all the facts hold."""
        if self.assumptions:
            known = self.assumptions[-1:] if self.parent else self.assumptions
            return tuple(values for values in (self.parent or self.bare).pool if _allows(known, values))
        random = Random(0)
        drawn = (_draw(self, random) for _ in range(4 * _POOL))
        return tuple(itertools.islice((values for values in drawn if values is not None), _POOL))

    @cached_property
    def samples(self) -> tuple[Mapping[str, int], ...]:
        return self.pool[:_SAMPLES]

    @cached_property
    def scaled(self) -> "tuple[Mapping[str, Expr], Facts]":
        """`m * x'` for each `x` that is a multiple of `m`, and the facts of `x'`."""
        return _scaled(self)


_UNKNOWN = Range()


def _draw(facts: Facts, random: Random) -> dict[str, int] | None:
    """Values within the ranges, the ends often, or None where they leave nothing to choose."""
    values: dict[str, int] = {}
    typical = random.choice((1, 3, 8, 40))

    def end(bound):
        for name in bound.variables:
            if name not in values:
                values[name] = random.randint(1, typical)
        return bound.positively(values)

    try:
        for name, known in facts.ranges.items():
            m = known.multiple_of
            low, high = (None if bound is None else end(bound) for bound in (known.lo, known.hi))
            if low is None:
                low = (high if high is not None else 0) - typical * m
            high = low + typical * m if high is None else high
            low, high = -(-low // m), high // m
            if low > high:
                return None
            # Ends refute most, but a size of 0, the end of an open range, leaves no index to draw.
            ends = 0.1 if known.lo is None or known.hi is None else 0.6
            values[name] = m * (
                random.choice((low, low, high)) if random.random() < ends else random.randint(low, high)
            )
    except ZeroDivisionError:
        return None
    return values


def _allows(assumptions, values: Mapping[str, int]) -> bool:
    try:
        for known, lo, hi in assumptions:
            value = _at(known, values)
            if (lo is not None and value < _at(lo, values)) or (hi is not None and value > _at(hi, values)):
                return False
    except ZeroDivisionError:
        return False
    return True


def _at(e: Expr, values: Mapping[str, int]) -> int:
    """A name of which nothing is known may as well be 1."""
    return e.positively(values if e.variables <= values.keys() else dict.fromkeys(e.variables, 1) | dict(values))


def _refuted(e: Expr, facts: Facts) -> bool:
    for values in facts.samples:
        try:
            if _at(e, values) < 0:
                return True
        except ZeroDivisionError:
            continue
    return False


def divisor(e: Expr, facts: Facts) -> int:
    """The largest constant known to divide `e` (0 where `e` is 0)."""
    return math.gcd(*(_term_divisor(monomial, coefficient, facts) for monomial, coefficient in as_expr(e).terms), 0)


def _term_divisor(monomial: Monomial, coefficient: int, facts: Facts) -> int:
    return math.prod((_atom_divisor(atom, facts) for atom in monomial), start=abs(coefficient))


def _atom_divisor(atom: Atom, facts: Facts) -> int:
    if isinstance(atom, Var):
        return facts.range_of(atom.name).multiple_of
    if isinstance(atom, Mod):
        return math.gcd(divisor(atom.numerator, facts), divisor(atom.denominator, facts)) or 1
    if isinstance(atom, FloorDiv):
        d = atom.denominator.constant if atom.denominator.is_constant else 0
        n = divisor(atom.numerator, facts)
        return n // d if d and n % d == 0 and n else 1
    return math.gcd(*(divisor(operand, facts) for operand in atom.operands)) or 1


def bounds(e: Expr, facts: Facts) -> tuple[int | None, int | None]:
    """Constants `(lo, hi)` with `lo <= e <= hi`; `None` where none is known."""
    e = as_expr(e)
    total = (0, 0)
    for monomial, coefficient in e.terms:
        product = (coefficient, coefficient)
        for atom in monomial:
            product = _times(product, _atom_bounds(atom, facts))
        total = (_plus(total[0], product[0]), _plus(total[1], product[1]))
    if facts.assumptions and not e.is_constant:
        c = e.constant_term
        for known in facts.assumed.get(e - c if c else e, ()):
            lo, hi = (bound.constant + c if bound is not None and bound.is_constant else None for bound in known)
            total = _tighter(total, (lo, hi))
    return total


def _plus(a, b):
    return None if a is None or b is None else a + b


def _tighter(a, b):
    lows = [x for x in (a[0], b[0]) if x is not None]
    highs = [x for x in (a[1], b[1]) if x is not None]
    return max(lows, default=None), min(highs, default=None)


def _times(a, b):
    """The interval of products; an end is unknown where a factor that it needs is."""
    corners = []
    for x, x_sign in ((a[0], -1), (a[1], 1)):
        for y, y_sign in ((b[0], -1), (b[1], 1)):
            if x == 0 or y == 0:
                corners.append(0)
            elif x is not None and y is not None:
                corners.append(x * y)
            else:
                sign = (x_sign if x is None else x) * (y_sign if y is None else y)
                corners.append(math.copysign(math.inf, sign))
    low, high = min(corners), max(corners)
    return None if low == -math.inf else low, None if high == math.inf else high


def _atom_bounds(atom: Atom, facts: Facts) -> tuple[int | None, int | None]:
    if isinstance(atom, Var):
        known = facts.range_of(atom.name)
        low = None if known.lo is None else bounds(known.lo, facts)[0]
        high = None if known.hi is None else bounds(known.hi, facts)[1]
        m = known.multiple_of
        return None if low is None else -(-low // m) * m, None if high is None else high // m * m
    if isinstance(atom, Min | Max):
        lows, highs = zip(*(bounds(operand, facts) for operand in atom.operands), strict=True)
        pick, loose, tight = (max, lows, highs) if isinstance(atom, Max) else (min, highs, lows)
        # A maximum is at least each operand that is known, and at most the largest only where all are known.
        near = pick((x for x in loose if x is not None), default=None)
        far = None if None in tight else pick(tight)
        return (near, far) if isinstance(atom, Max) else (far, near)
    low, high = bounds(atom.numerator, facts)
    d_low, d_high = bounds(atom.denominator, facts)
    d_low = max(d_low or 1, 1)
    if isinstance(atom, Mod):
        top = None if d_high is None else d_high - 1
        if low is not None and low >= 0 and high is not None:
            top = high if top is None else min(high, top)
        return 0, top
    if low is not None:
        low = low // (d_low if low < 0 else d_high) if low < 0 or d_high else 0
    if high is not None:
        high = high // (d_low if high >= 0 else d_high) if high >= 0 or d_high else -1
    return low, high


def is_nonnegative(e: Expr, facts: Facts) -> bool:
    """Whether `e >= 0` is proved."""
    e = as_expr(e)
    low = bounds(e, facts)[0]
    if low is not None and low >= 0:
        return True
    if e.is_constant or _refuted(e, facts):
        return False
    values, scaled = facts.scaled
    try:
        return _Proof(scaled).nonnegative(e.subs(values))
    except _GaveUp:
        return False


def _scaled(facts: Facts) -> tuple[Mapping[str, Expr], Facts]:
    multiples = {name: known.multiple_of for name, known in facts.ranges.items() if known.multiple_of > 1}
    if not multiples:
        return {}, facts
    # What divides then shows in the canonical form.
    values = {name: var(f"{name}'") * m for name, m in multiples.items()}

    def convert(bound):
        return None if bound is None else bound.subs(values)

    ranges = {}
    for name, known in facts.ranges.items():
        m = known.multiple_of
        lo, hi = convert(known.lo), convert(known.hi)
        if m > 1:
            name = f"{name}'"
            lo, hi = None if lo is None else (lo + (m - 1)) // m, None if hi is None else hi // m
        ranges[name] = Range(lo, hi)
    assumptions = tuple((known.subs(values), convert(lo), convert(hi)) for known, lo, hi in facts.assumptions)
    scaled = Facts(ranges, assumptions)
    scaled.__dict__["pool"] = tuple(
        {f"{name}'" if name in multiples else name: x // multiples.get(name, 1) for name, x in values.items()}
        for values in facts.pool
    )
    return values, scaled


class _GaveUp(Exception):
    """The budget of a proof is spent."""


class _Proof:
    """One search: what was tried is not tried again, and the number of steps is bounded."""

    def __init__(self, facts: Facts):
        self.facts = facts
        self.order = {name: i for i, name in enumerate(facts.ranges)}
        self.tried: set[Expr] = set()
        self.proved: set[Expr] = set()
        self.left = _BUDGET

    def nonnegative(self, e: Expr) -> bool:
        low = bounds(e, self.facts)[0]
        if low is not None:
            if low >= 0:
                return True
            if e.is_constant:
                return False
        if e in self.tried or _refuted(e, self.facts):
            return e in self.proved
        if not self.left:
            raise _GaveUp
        self.tried.add(e)
        self.left -= 1
        found = any(self.nonnegative(smaller) for smaller in self.smaller(e))
        if found:
            self.proved.add(e)
        return found

    def smaller(self, e: Expr):
        """Expressions that are at most `e`."""
        for atom in sorted(e.atoms, key=self.rank, reverse=True):
            coefficient, rest = _split(e, atom)
            sign = self.sign(coefficient)
            if sign:
                for bound in self.bounds_of(atom, coefficient, lower=sign > 0):
                    if bound is not None:
                        yield coefficient * bound + rest
        for known, lo, hi in self.facts.assumptions:
            for slack in (known - lo if lo is not None else None, hi - known if hi is not None else None):
                if slack is not None and (rest := _less_a_multiple(e, slack)) is not None:
                    yield rest

    def rank(self, atom: Atom) -> tuple[int, int]:
        """Atoms made of variables bound later, and of more variables, are replaced earlier."""
        names = (atom.name,) if isinstance(atom, Var) else as_expr(of_atom(atom)).variables
        return max((self.order.get(name, -1) for name in names), default=-1), len(of_atom(atom).text)

    def sign(self, e: Expr) -> int:
        if e.is_constant:
            return (e.constant > 0) - (e.constant < 0)
        if self.nonnegative(e):
            return 1
        return -1 if self.nonnegative(-e) else 0

    def bounds_of(self, atom: Atom, coefficient: Expr, lower: bool):
        if isinstance(atom, Var):
            known = self.facts.range_of(atom.name)
            yield known.lo if lower else known.hi
        elif isinstance(atom, Mod):
            yield from self.bounds_of_remainder(atom, lower)
        elif isinstance(atom, FloorDiv):
            yield from self.bounds_of_quotient(atom, coefficient, lower)
        elif isinstance(atom, Max) == lower:
            yield from atom.operands
        else:
            yield from (o for o in atom.operands if self.decides(o, atom))

    def decides(self, operand: Expr, atom: Min | Max) -> bool:
        sign = 1 if isinstance(atom, Max) else -1
        return all(self.nonnegative((operand - other) * sign) for other in atom.operands if other != operand)

    def bounds_of_remainder(self, atom: Mod, lower: bool):
        if lower:
            yield const(0)
            return
        yield atom.denominator - 1
        if self.nonnegative(atom.numerator):
            yield atom.numerator

    def bounds_of_quotient(self, atom: FloorDiv, coefficient: Expr, lower: bool):
        a, b = atom.numerator, atom.denominator
        for bound in self.symbolic_bounds(a, lower):
            yield bound // b
        times, rest = _exactly(coefficient, b)
        if rest == 0:
            # b * (a // b) lies in [a - b + 1, a]; the caller multiplies by the coefficient, `times * b`.
            yield _Quotient(times, a - b + 1 if lower else a)
        if lower and self.nonnegative(a):
            yield const(0)

    def symbolic_bounds(self, a: Expr, lower: bool):
        """Bounds of an expression that are themselves expressions in variables bound earlier."""
        for lo, hi in self.facts.assumed.get(a - a.constant_term, ()):
            bound = lo if lower else hi
            if bound is not None:
                yield bound + a.constant_term
        eliminated = a
        for atom in sorted(a.atoms, key=self.rank, reverse=True):
            if not isinstance(atom, Var) or atom not in eliminated.atoms:
                continue
            coefficient, rest = _split(eliminated, atom)
            known = self.facts.range_of(atom.name)
            sign = self.sign(coefficient)
            bound = known.lo if (sign > 0) == lower else known.hi
            if not sign or bound is None:
                continue
            eliminated = coefficient * bound + rest
            yield eliminated


@dataclass(frozen=True)
class _Quotient:
    """Stands for `a // b` bounded by `bound / b`: multiplied by `times * b` it is `times * bound`."""

    times: Expr
    bound: Expr

    def __rmul__(self, coefficient):
        return self.times * self.bound


def _exactly(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    quotient = a // b
    return quotient, a - quotient * b


def _split(e: Expr, atom: Atom) -> tuple[Expr, Expr]:
    """`(c, r)` with `e == c * atom + r` and `r` free of the atom (as a factor)."""
    coefficient, rest = {}, {}
    for monomial, c in e.terms:
        if atom in monomial:
            i = monomial.index(atom)
            coefficient[monomial[:i] + monomial[i + 1 :]] = c
        else:
            rest[monomial] = c
    return Expr(tuple(coefficient.items())), Expr(tuple(rest.items()))


def _less_a_multiple(e: Expr, slack: Expr) -> Expr | None:
    """`e - k * slack` for the `k >= 1` that cancels a term, where that leaves no more terms than there were."""
    terms = dict(e.terms)
    for monomial, c in slack.terms:
        k = terms.get(monomial, 0) // c if monomial and terms.get(monomial, 0) % c == 0 else 0
        if k >= 1 and len((rest := e - slack * k).terms) <= len(e.terms):
            return rest
    return None


def simplify(e: Expr, facts: Facts) -> Expr:
    """`e` without the `//`, `%`, `min` and `max` that the ranges decide."""
    e = as_expr(e)
    if all(isinstance(atom, Var) and facts.range_of(atom.name).value is None for atom in e.atoms):
        return e
    return e.fold(_Simplification(facts))


@dataclass(frozen=True)
class _Simplification:
    facts: Facts

    def const(self, n):
        return const(n)

    def var(self, name):
        value = self.facts.range_of(name).value
        return var(name) if value is None else const(value)

    def add(self, operands):
        return sum(operands, start=const(0))

    def mul(self, coefficient, factors):
        return math.prod(factors, start=const(coefficient))

    def floordiv(self, a, b):
        if b == 0:  # an empty dimension: no element asks for its index
            return a
        whole, rest = self.split_multiples(a, b)
        quotient = rest // b
        for atom in quotient.atoms:
            if isinstance(atom, FloorDiv):
                steps = self.steps(atom.numerator, atom.denominator)
                if steps is not None:
                    quotient = quotient - of_atom(atom) + steps if _split(quotient, atom)[0] == 1 else quotient
        return whole // b + quotient

    def mod(self, a, b):
        if b == 0:
            return const(0)
        _, rest = self.split_multiples(a, b)
        remainder = rest % b
        atom = remainder.sole_atom
        if isinstance(atom, Mod):
            steps = self.steps(atom.numerator, atom.denominator)
            if steps is not None:
                return atom.numerator - steps * atom.denominator
        return remainder

    def split_multiples(self, a, b):
        """`a == whole + rest` where every term of `whole` is known to be a multiple of a constant `b`."""
        if not b.is_constant or b.constant <= 1:
            return const(0), a
        terms = [(m, c) for m, c in a.terms if m and _term_divisor(m, c, self.facts) % b.constant == 0]
        whole = sum((Expr((term,)) for term in terms), start=const(0))
        return whole, a - whole

    def steps(self, a: Expr, b: Expr) -> int | None:
        """The quotient where it is known to be one number."""
        if b.is_constant:
            low, high = bounds(a, self.facts)
            if low is not None and high is not None and low // b.constant == high // b.constant:
                return low // b.constant
        proved = is_nonnegative(a, self.facts) and is_nonnegative(b - 1 - a, self.facts)
        return 0 if proved else None

    # Assumptions come and go with guards: a size that drops its `max` with them would have two forms.

    def minimum(self, operands):
        return minimum(*self.undominated(operands, 1))

    def maximum(self, operands):
        return maximum(*self.undominated(operands, -1))

    def undominated(self, operands, sign):
        kept, ranges = list(operands), self.facts.bare
        for operand in operands:
            others = [other for other in kept if other is not operand]
            if any(is_nonnegative((operand - other) * sign, ranges) for other in others):
                kept = others
        return kept

"""Constant bounds and divisors of expressions, by interval arithmetic."""

import math

from ninetoothed.expr.algebra import ExprLike, as_expr
from ninetoothed.expr.atoms import Atom, FloorDiv, Max, Min, Mod, Monomial, Var
from ninetoothed.expr.facts import Facts
from ninetoothed.expr.ranges import Range

Interval = tuple[int | None, int | None]


def divisor(e: ExprLike, facts: Facts) -> int:
    """Find the largest constant known to divide `e` (0 where `e` is 0)."""
    return math.gcd(*(term_divisor(monomial, coefficient, facts) for monomial, coefficient in as_expr(e).terms), 0)


def term_divisor(monomial: Monomial, coefficient: int, facts: Facts) -> int:
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


def bounds(e: ExprLike, facts: Facts) -> Interval:
    """Find constants `(lo, hi)` with `lo <= e <= hi`; `None` where none is known."""
    e = as_expr(e)
    total: Interval = (0, 0)
    for monomial, coefficient in e.terms:
        product: Interval = (coefficient, coefficient)
        for atom in monomial:
            product = _times(product, _atom_bounds(atom, facts))
        total = (_plus(total[0], product[0]), _plus(total[1], product[1]))
    if facts.assumptions and not e.is_constant:
        c = e.constant_term
        for known in facts.assumed.get(e - c if c else e, ()):
            lo, hi = (bound.constant + c if bound is not None and bound.is_constant else None for bound in known)
            total = _tighter(total, (lo, hi))
    return total


def bounds_of_range(known: Range, facts: Facts) -> Interval:
    """Find constants between which the ends of a range lie, each end by itself: the range may be empty."""
    low = None if known.lo is None else bounds(known.lo, facts)[0]
    return low, None if known.hi is None else bounds(known.hi, facts)[1]


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _tighter(a: Interval, b: Interval) -> Interval:
    lows = [x for x in (a[0], b[0]) if x is not None]
    highs = [x for x in (a[1], b[1]) if x is not None]
    return max(lows, default=None), min(highs, default=None)


def _times(a: Interval, b: Interval) -> Interval:
    """Multiply two intervals; an end is unknown where a factor that it needs is."""
    corners: list[int | float] = []
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
    return None if isinstance(low, float) else low, None if isinstance(high, float) else high


def _atom_bounds(atom: Atom, facts: Facts) -> Interval:
    """Return the interval of an atom; steps that mention an index twice ask for those within again and again."""
    if isinstance(atom, Var):
        known = facts.range_of(atom.name)
        (low, high), m = bounds_of_range(known, facts), known.multiple_of
        return None if low is None else -(-low // m) * m, None if high is None else high // m * m
    if atom not in facts.intervals:
        if isinstance(atom, Min | Max):
            facts.intervals[atom] = _extremum_bounds(atom, facts)
        else:
            facts.intervals[atom] = _quotient_bounds(atom, facts)
    return facts.intervals[atom]


def _quotient_bounds(atom: FloorDiv | Mod, facts: Facts) -> Interval:
    """Bound a quotient or a remainder by the bounds of both sides."""
    low, high = bounds(atom.numerator, facts)
    d_low, d_high = bounds(atom.denominator, facts)
    d_low = max(d_low or 1, 1)
    if isinstance(atom, Mod):
        top = None if d_high is None else d_high - 1
        if low is not None and low >= 0 and high is not None:
            top = high if top is None else min(high, top)
        return 0, top
    # The quotient ends nearest to 0 for the greatest divisor: next to 0 or -1 where that is not known.
    if low is not None:
        low = low // d_low if low < 0 else low // d_high if d_high else 0
    if high is not None:
        high = high // d_low if high >= 0 else high // d_high if d_high else -1
    return low, high


def _extremum_bounds(atom: Min | Max, facts: Facts) -> Interval:
    """Bound a maximum from below by each operand that is known, and from above only where all are known."""
    lows, highs = zip(*(bounds(operand, facts) for operand in atom.operands), strict=True)
    pick, loose, tight = (max, lows, highs) if isinstance(atom, Max) else (min, highs, lows)
    near = pick((x for x in loose if x is not None), default=None)
    far = None if None in tight else pick(tight)
    return (near, far) if isinstance(atom, Max) else (far, near)

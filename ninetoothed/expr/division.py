"""The canonical forms of `//` and `%`: multiples of the divisor leave, common factors cancel, quotients nest."""

import math
from functools import lru_cache

from ninetoothed.expr.algebra import Expr, build, const, of_atom
from ninetoothed.expr.atoms import FloorDiv, Mod, Monomial, common_factor, without


def _divide(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Give `(q, r)` with `a == q * b + r`, where `q` has all of `a` that is visibly a multiple of `b`."""
    quotient: dict[Monomial, int] = {}
    rest = a
    lead, scale = b.terms[0]
    for monomial, coefficient in a.terms:
        factor = without(monomial, lead)
        if factor is None:
            continue
        # Only exact multiples leave; but a constant over a constant floors, so that `cdiv` has one form.
        times = coefficient // scale
        if not times or (monomial and coefficient % scale):
            continue
        term = Expr(((factor, times),))
        smaller = rest - term * b
        if len(b.terms) == 1 or len(smaller.terms) < len(rest.terms):
            quotient[factor] = quotient.get(factor, 0) + times
            rest = smaller
    return build(quotient), rest


def _reduce(r: Expr, b: Expr) -> tuple[Expr, Expr, Expr, Expr] | None:
    """Give `(r', b', g, low)` with `r // b == r' // b'`, `r % b == g * (r' % b') + low`; None if nothing cancels."""
    coefficients = [c for monomial, c in r.terms if monomial] + [c for _, c in b.terms]
    g = math.gcd(*coefficients)
    if g > 1:
        low = r.constant_term % g
        return _scale_down(r - low, g), _scale_down(b, g), const(g), const(low)
    common = common_factor([monomial for monomial, _ in r.terms + b.terms])
    if not common:
        return None
    return _without_factor(r, common), _without_factor(b, common), Expr(((common, 1),)), const(0)


def _without_factor(e: Expr, factor: Monomial) -> Expr:
    """Divide each term by a factor that all have."""
    rests = ((without(monomial, factor), coefficient) for monomial, coefficient in e.terms)
    return build({rest: coefficient for rest, coefficient in rests if rest is not None})


def _scale_down(e: Expr, g: int) -> Expr:
    return Expr(tuple((monomial, c // g) for monomial, c in e.terms))


@lru_cache(maxsize=4096)
def floordiv(a: Expr, b: Expr) -> Expr:
    """Build `a // b`, rounded down as in Python; a symbolic `b` is at least 1."""
    if b.is_constant:
        if b.constant == 0:
            raise ZeroDivisionError(f"({a}) // 0")
        if b.constant < 0:
            a, b = -a, -b
    quotient, r = _divide(a, b)
    if r.is_constant and (r == 0 or r == -1 or b.is_constant):
        # 0 // b == 0 and -1 // b == -1 for every b >= 1.
        return quotient + (r.constant // b.constant if b.is_constant else r.constant)
    reduced = _reduce(r, b)
    if reduced is not None:
        return quotient + floordiv(reduced[0], reduced[1])
    atom = (r - r.constant_term).sole_atom
    if isinstance(atom, FloorDiv):
        # (x // c + k) // b -> (x + k * c) // (c * b)
        return quotient + floordiv(atom.numerator + r.constant_term * atom.denominator, atom.denominator * b)
    if isinstance(atom, Mod) and r.constant_term == 0:
        factor, rest = _divide(atom.denominator, b)
        if rest == 0:
            # (x % (b * c)) // b -> (x // b) % c
            return quotient + mod(floordiv(atom.numerator, b), factor)
    return quotient + of_atom(FloorDiv(r, b))


@lru_cache(maxsize=4096)
def mod(a: Expr, b: Expr) -> Expr:
    """Build `a % b`, with the sign of `b` as in Python; a symbolic `b` is at least 1."""
    if b.is_constant:
        if b.constant == 0:
            raise ZeroDivisionError(f"({a}) % 0")
        if b.constant < 0:
            return -mod(-a, -b)
    _, r = _divide(a, b)
    if r.is_constant and (r == 0 or b.is_constant):
        return const(r.constant % b.constant) if b.is_constant else const(0)
    for monomial, coefficient in r.terms:
        if len(monomial) == 1 and isinstance(monomial[0], Mod) and _divide(monomial[0].denominator, b)[1] == 0:
            # (x % (b * c) + r) % b -> (x + r) % b
            return mod(r + coefficient * (monomial[0].numerator - of_atom(monomial[0])), b)
    reduced = _reduce(r, b)
    if reduced is not None:
        smaller, divisor, factor, low = reduced
        return factor * mod(smaller, divisor) + low
    return of_atom(Mod(r, b))


def condition(e: Expr) -> Expr:
    """Give the simplest expression that is above 0 where `e` is: no common factor is left, and no quotient.

    9 - 4 * k - 2 * (n // 16)  ->  5 - 2 * k - n // 16  ->  80 - 32 * k - n
    """
    while True:
        factor = math.gcd(*(coefficient for monomial, coefficient in e.terms if monomial))
        if factor > 1:
            e = (e - 1) // factor + 1
        quotients = (monomial[0] for monomial, coefficient in e.terms if len(monomial) == 1 and coefficient == -1)
        constant = (q for q in quotients if isinstance(q, FloorDiv) and q.denominator.is_constant)
        quotient = next(constant, None)
        if quotient is None:
            return e
        # rest - n // d > 0  ->  d * rest - n > 0
        e = quotient.denominator * (e + of_atom(quotient)) - quotient.numerator

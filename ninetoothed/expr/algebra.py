"""Canonical integer expressions.

An `Expr` is a polynomial with integer coefficients over atoms: variables, floor divisions, remainders, minima and
maxima. Building one brings it to a canonical form, so that equal forms compare equal. `//` and `%` floor as in Python;
a symbolic divisor is a size or a block, so it is taken to be at least 1.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ninetoothed.expr.atoms import (
    Atom,
    Canonical,
    FloorDiv,
    Max,
    Min,
    Mod,
    Monomial,
    Terms,
    Var,
    common_factor,
    print_sum,
    product,
    variables_of,
    without,
)


@dataclass(frozen=True, eq=False, repr=False)
class Expr(Canonical):
    """A sum of `coefficient * atom * atom ...`; `terms` is sorted, without zero coefficients."""

    terms: Terms

    def __eq__(self, other):
        if isinstance(other, int):
            return self.is_constant and self.constant == other
        return isinstance(other, Expr) and self.text == other.text

    def __hash__(self):
        return hash(self.constant) if self.is_constant else self._hash  # as equal ints hash

    @property
    def is_constant(self) -> bool:
        return not self.terms or (len(self.terms) == 1 and not self.terms[0][0])

    @property
    def constant(self) -> int:
        """The value of a constant expression."""
        assert self.is_constant, f"{self} is not constant"
        return self.terms[0][1] if self.terms else 0

    @property
    def constant_term(self) -> int:
        """The coefficient of 1, which is 0 where there is none."""
        return self.terms[-1][1] if self.terms and not self.terms[-1][0] else 0

    @cached_property
    def variables(self) -> frozenset[str]:
        return frozenset(name for atom in self.atoms for name in variables_of(atom))

    @cached_property
    def atoms(self) -> tuple[Atom, ...]:
        """The distinct atoms of the polynomial itself (not those inside other atoms)."""
        return tuple(dict.fromkeys(atom for monomial, _ in self.terms for atom in monomial))

    @property
    def sole_atom(self) -> "Atom | None":
        """The atom, where the expression is nothing else."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0][0]
        return None

    def __add__(self, other):
        other = _coerce(other)
        return other if other is NotImplemented else _build(_merge(self, other, 1))

    def __sub__(self, other):
        other = _coerce(other)
        return other if other is NotImplemented else _build(_merge(self, other, -1))

    def __mul__(self, other):
        other = _coerce(other)
        if other is NotImplemented:
            return other
        terms: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                monomial = product(left, right)
                terms[monomial] = terms.get(monomial, 0) + a * b
        return _build(terms)

    def __floordiv__(self, other):
        other = _coerce(other)
        return other if other is NotImplemented else _floordiv(self, other)

    def __mod__(self, other):
        other = _coerce(other)
        return other if other is NotImplemented else _mod(self, other)

    def __neg__(self):
        return self * -1

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other):
        return const(other) - self

    def __rfloordiv__(self, other):
        return const(other) // self

    def __rmod__(self, other):
        return const(other) % self

    def subs(self, values: Mapping[str, "Expr | int"]) -> "Expr":
        """This expression with variables replaced, canonical again."""
        if not self.variables & values.keys():
            return self
        return self.fold(_Substitution(values))

    def evaluate(self, values: Mapping[str, int]) -> int:
        return self.fold(_Evaluation(values))

    def fold(self, algebra):
        """One walk, bottom up: `algebra` has `const(int)`, `var(str)`, `add(list)`, `mul(coefficient, factors)`,
        `floordiv(a, b)`, `mod(a, b)`, `minimum(list)`, `maximum(list)`.

        A sum is never given fewer than two operands, nor `mul` anything that a factor alone or a constant would say.
        """
        parts = [
            algebra.const(coefficient)
            if not monomial
            else monomial[0]._fold(algebra)
            if coefficient == 1 and len(monomial) == 1
            else algebra.mul(coefficient, [atom._fold(algebra) for atom in monomial])
            for monomial, coefficient in self.terms
        ]
        if not parts:
            return algebra.const(0)
        return parts[0] if len(parts) == 1 else algebra.add(parts)

    def linear(self, names: Iterable[str]) -> "tuple[dict[str, Expr], Expr] | None":
        """`({name: coefficient}, rest)` with `self == sum(coefficient * name) + rest`, both free of `names`; else None.

        >>> (var("i") * var("s") + 3).linear(["i"])
        ({'i': s}, 3)
        """
        names = tuple(names)
        coefficients: dict[str, dict[Monomial, int]] = {name: {} for name in names}
        rest: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms:
            dependent = [i for i, atom in enumerate(monomial) if not coefficients.keys().isdisjoint(variables_of(atom))]
            if not dependent:
                rest[monomial] = coefficient
            elif len(dependent) == 1 and isinstance(monomial[dependent[0]], Var):
                (i,) = dependent
                coefficients[monomial[i].name][monomial[:i] + monomial[i + 1 :]] = coefficient
            else:
                return None
        return {name: _build(terms) for name, terms in coefficients.items()}, _build(rest)

    def _print(self):
        return print_sum(self.terms)


def const(n: int) -> Expr:
    return Expr((((), int(n)),) if n else ())


@lru_cache(maxsize=1024)
def var(name: str) -> Expr:
    return Expr((((Var(name),), 1),))


def of_atom(atom: Atom) -> Expr:
    return Expr((((atom,), 1),))


def as_expr(value) -> Expr:
    """An `Expr` from an int, an `Expr`, a name, or anything with an `expr` (a `Symbol`)."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, str):
        return var(value)
    if hasattr(value, "expr"):
        return value.expr
    return const(value.__index__())


def _coerce(value):
    if isinstance(value, Expr):
        return value
    return const(value.__index__()) if hasattr(value, "__index__") else NotImplemented


def cdiv(a, b) -> Expr:
    """`a / b` rounded up."""
    return (as_expr(a) - 1) // as_expr(b) + 1


def minimum(*operands) -> Expr:
    return _extremum(Min, operands)


def maximum(*operands) -> Expr:
    return _extremum(Max, operands)


def _extremum(kind, operands) -> Expr:
    flat: list[Expr] = []
    for operand in map(as_expr, operands):
        atom = operand.sole_atom
        flat.extend(atom.operands if isinstance(atom, kind) else (operand,))
    kept: list[Expr] = []
    for candidate in flat:
        for i, other in enumerate(kept):
            difference = candidate - other
            if difference.is_constant:
                if (difference.constant < 0) == (kind is Min):
                    kept[i] = candidate
                break
        else:
            kept.append(candidate)
    if len(kept) == 1:
        return kept[0]
    return of_atom(kind(tuple(sorted(kept, key=lambda e: (e.is_constant, e.text)))))


def _merge(a: Expr, b: Expr, sign: int) -> dict[Monomial, int]:
    terms = dict(a.terms)
    for monomial, coefficient in b.terms:
        terms[monomial] = terms.get(monomial, 0) + sign * coefficient
    return terms


def _build(terms: dict[Monomial, int]) -> Expr:
    terms = {monomial: coefficient for monomial, coefficient in terms.items() if coefficient}
    if any(isinstance(atom, Mod) for monomial in terms for atom in monomial):
        joined = _rejoin(terms)
        if joined is not None:
            return joined
    return Expr(tuple(sorted(terms.items(), key=lambda term: (-len(term[0]), [atom.text for atom in term[0]]))))


def _rejoin(terms: dict[Monomial, int]) -> Expr | None:
    """`q * (x // q) + x % q` -> `x`, with any common factor."""
    for monomial, coefficient in terms.items():
        for i, atom in enumerate(monomial):
            if not isinstance(atom, Mod) or len(atom.denominator.terms) != 1:
                continue
            quotient = _floordiv(atom.numerator, atom.denominator)
            if len(quotient.terms) != 1:
                continue
            rest = monomial[:i] + monomial[i + 1 :]
            divisor, scale = atom.denominator.terms[0]
            partner = product(product(rest, divisor), quotient.terms[0][0])
            wanted = coefficient * scale * quotient.terms[0][1]
            if terms.get(partner) == wanted and partner != monomial:
                remaining = {m: c for m, c in terms.items() if m not in (monomial, partner)}
                return _build(remaining) + Expr(((rest, coefficient),)) * atom.numerator
    return None


def _divide(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """`(q, r)` with `a == q * b + r`: whatever of `a` is visibly a multiple of `b` is in `q`."""
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
    return _build(quotient), rest


def _reduce(r: Expr, b: Expr) -> tuple[Expr, Expr, Expr, Expr] | None:
    """`(r', b', g, low)` with `r // b == r' // b'`, `r % b == g * (r' % b') + low`; None if nothing cancels."""
    coefficients = [c for monomial, c in r.terms if monomial] + [c for _, c in b.terms]
    g = math.gcd(*coefficients)
    if g > 1:
        low = r.constant_term % g
        return _scale_down(r - low, g), _scale_down(b, g), const(g), const(low)
    common = common_factor([monomial for monomial, _ in r.terms + b.terms])
    if not common:
        return None
    strip = lambda e: Expr(tuple((without(monomial, common), c) for monomial, c in e.terms))  # noqa: E731
    return _build(dict(strip(r).terms)), _build(dict(strip(b).terms)), Expr(((common, 1),)), const(0)


def _scale_down(e: Expr, g: int) -> Expr:
    return Expr(tuple((monomial, c // g) for monomial, c in e.terms))


def _floordiv(a: Expr, b: Expr) -> Expr:
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
        return quotient + _floordiv(reduced[0], reduced[1])
    atom = (r - r.constant_term).sole_atom
    if isinstance(atom, FloorDiv):
        # (x // c + k) // b -> (x + k * c) // (c * b)
        return quotient + _floordiv(atom.numerator + r.constant_term * atom.denominator, atom.denominator * b)
    if isinstance(atom, Mod) and r.constant_term == 0:
        factor, rest = _divide(atom.denominator, b)
        if rest == 0:
            # (x % (b * c)) // b -> (x // b) % c
            return quotient + _mod(_floordiv(atom.numerator, b), factor)
    return quotient + of_atom(FloorDiv(r, b))


def _mod(a: Expr, b: Expr) -> Expr:
    if b.is_constant:
        if b.constant == 0:
            raise ZeroDivisionError(f"({a}) % 0")
        if b.constant < 0:
            return -_mod(-a, -b)
    _, r = _divide(a, b)
    if r.is_constant and (r == 0 or b.is_constant):
        return const(r.constant % b.constant) if b.is_constant else const(0)
    for monomial, coefficient in r.terms:
        if len(monomial) == 1 and isinstance(monomial[0], Mod) and _divide(monomial[0].denominator, b)[1] == 0:
            # (x % (b * c) + r) % b -> (x + r) % b
            return _mod(r + coefficient * (monomial[0].numerator - of_atom(monomial[0])), b)
    reduced = _reduce(r, b)
    if reduced is not None:
        smaller, divisor, factor, low = reduced
        return factor * _mod(smaller, divisor) + low
    return of_atom(Mod(r, b))


@dataclass(frozen=True)
class _Evaluation:
    values: Mapping[str, int]

    def const(self, n):
        return n

    def var(self, name):
        return self.values[name]

    def add(self, operands):
        return sum(operands)

    def mul(self, coefficient, factors):
        return math.prod(factors, start=coefficient)

    def floordiv(self, a, b):
        return a // b

    def mod(self, a, b):
        return a % b

    def minimum(self, operands):
        return min(operands)

    def maximum(self, operands):
        return max(operands)


@dataclass(frozen=True)
class _Substitution(_Evaluation):
    values: Mapping[str, Expr | int]

    def const(self, n):
        return const(n)

    def var(self, name):
        return as_expr(self.values[name]) if name in self.values else var(name)

    def add(self, operands):
        return sum(operands, start=const(0))

    def mul(self, coefficient, factors):
        return math.prod(factors, start=const(coefficient))

    def minimum(self, operands):
        return minimum(*operands)

    def maximum(self, operands):
        return maximum(*operands)

"""Canonical integer expressions.

An `Expr` is a polynomial with integer coefficients over atoms: variables, floor divisions, remainders, minima and
maxima. Building one brings it to a canonical form, so that equal forms compare equal. `//` and `%` floor as in Python;
a symbolic divisor is a size or a block, so it is taken to be at least 1.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol, SupportsIndex

from ninetoothed.expr.atoms import (
    Atom,
    Canonical,
    Max,
    Min,
    Mod,
    Monomial,
    Terms,
    Var,
    print_sum,
    product,
    variables_of,
)
from ninetoothed.expr.folds import Algebra, Evaluation, T


@dataclass(frozen=True, eq=False, repr=False)
class Expr(Canonical):
    """A sum of `coefficient * atom * atom ...`; `terms` is sorted, without zero coefficients."""

    terms: Terms

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return self.is_constant and self.constant == other
        return self is other or (isinstance(other, Expr) and self.text == other.text)

    def __hash__(self) -> int:
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

    def __add__(self, other: "Operand") -> "Expr":
        if (operand := _operand(other)) is None:
            return NotImplemented
        if not (self.terms and operand.terms):
            return self if self.terms else operand
        return build(_merge(self, operand, 1))

    def __sub__(self, other: "Operand") -> "Expr":
        if (operand := _operand(other)) is None:
            return NotImplemented
        return build(_merge(self, operand, -1)) if operand.terms else self

    def __mul__(self, other: "Operand") -> "Expr":
        if (operand := _operand(other)) is None:
            return NotImplemented
        if self.is_constant:
            self, operand = operand, self
        if operand.is_constant:
            return self._scaled(operand.constant)
        terms: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in operand.terms:
                monomial = product(left, right)
                terms[monomial] = terms.get(monomial, 0) + a * b
        return build(terms)

    def _scaled(self, factor: int) -> "Expr":
        """Multiply by a number, which keeps the form canonical."""
        if factor == 1:
            return self
        return Expr(tuple((monomial, coefficient * factor) for monomial, coefficient in self.terms) if factor else ())

    def __floordiv__(self, other: "Operand") -> "Expr":
        if (operand := _operand(other)) is None:
            return NotImplemented
        return division.floordiv(self, operand)

    def __mod__(self, other: "Operand") -> "Expr":
        if (operand := _operand(other)) is None:
            return NotImplemented
        return division.mod(self, operand)

    def __neg__(self) -> "Expr":
        return self._scaled(-1)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: SupportsIndex) -> "Expr":
        return as_expr(other) - self

    def __rfloordiv__(self, other: SupportsIndex) -> "Expr":
        return as_expr(other) // self

    def __rmod__(self, other: SupportsIndex) -> "Expr":
        return as_expr(other) % self

    def subs(self, values: Mapping[str, "Expr | int"]) -> "Expr":
        """Replace variables; the result is canonical again."""
        if not self.variables & values.keys():
            return self
        built: Expr = self.fold(Substitution(values))
        return built

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Evaluate to a number; `values` has every variable."""
        number: int = self.fold(Evaluation(values))
        return number

    def fold(self, algebra: Algebra[T], known: dict[Atom, T] | None = None) -> T:
        """Walk the expression once, bottom up, and give each form the meaning that `algebra` has for it.

        known: the meanings of quotients and remainders met before: an index may stand in another many times.
        """
        known = {} if known is None else known
        parts = [
            algebra.const(coefficient)
            if not monomial
            else monomial[0]._fold(algebra, known)
            if coefficient == 1 and len(monomial) == 1
            else algebra.mul(coefficient, [atom._fold(algebra, known) for atom in monomial])
            for monomial, coefficient in self.terms
        ]
        if not parts:
            return algebra.const(0)
        return parts[0] if len(parts) == 1 else algebra.add(parts)

    def linear(self, names: Iterable[str]) -> "tuple[dict[str, Expr], Expr] | None":
        """Write this as `sum(coefficient * name) + rest`, coefficients and rest free of `names`; None if it is not so.

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
                continue
            i = dependent[0]
            atom = monomial[i]
            if len(dependent) > 1 or not isinstance(atom, Var):
                return None
            coefficients[atom.name][monomial[:i] + monomial[i + 1 :]] = coefficient
        return {name: build(terms) for name, terms in coefficients.items()}, build(rest)

    def _print(self) -> str:
        return print_sum(self.terms)


class HasExpr(Protocol):
    """A value that stands for an expression, such as a `Symbol`."""

    @property
    def expr(self) -> Expr: ...


Operand = Expr | SupportsIndex
ExprLike = Operand | str | HasExpr


def const(n: SupportsIndex) -> Expr:
    return _const(int(n))


@lru_cache(maxsize=1024)
def _const(n: int) -> Expr:
    return Expr((((), n),) if n else ())


@lru_cache(maxsize=1024)
def var(name: str) -> Expr:
    return Expr((((Var(name),), 1),))


def of_atom(atom: Atom) -> Expr:
    return Expr((((atom,), 1),))


def as_expr(value: ExprLike) -> Expr:
    """Make an `Expr` of an int, an `Expr`, a name, or anything with an `expr` (a `Symbol`)."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, str):
        return var(value)
    if not isinstance(value, int) and hasattr(value, "expr"):
        expr: Expr = value.expr
        return expr
    return const(value.__index__())


def _operand(value: object) -> Expr | None:
    """Convert an operand of an operator; None if it is no number."""
    if isinstance(value, Expr):
        return value
    return const(value.__index__()) if hasattr(value, "__index__") else None


def cdiv(a: Operand, b: Operand) -> Expr:
    """Build `a / b` rounded up."""
    return (as_expr(a) - 1) // as_expr(b) + 1


def offset(indices: Iterable[Operand], strides: Iterable[ExprLike]) -> Expr:
    """Return how many elements an element of a tensor lies after the first."""
    return sum((index * as_expr(stride) for index, stride in zip(indices, strides, strict=True)), start=const(0))


def minimum(*operands: Operand) -> Expr:
    """Build the least of the operands; those that can be told to be no less than another are dropped."""
    return _extremum(Min, operands)


def maximum(*operands: Operand) -> Expr:
    """Build the greatest of the operands; those that can be told to be no greater than another are dropped."""
    return _extremum(Max, operands)


def _extremum(form: type[Min] | type[Max], operands: tuple[Operand, ...]) -> Expr:
    """Build a minimum or maximum, less operands that differ from another by a constant.

    max(max(n - 1, 0) - 1, 0)  ->  max(n - 2, 0)
    """
    flat = [inner for operand in operands for inner in _spread(form, as_expr(operand))]
    kept: list[Expr] = []
    for candidate in flat:
        for i, other in enumerate(kept):
            difference = candidate - other
            if difference.is_constant:
                if (difference.constant < 0) == (form is Min):
                    kept[i] = candidate
                break
        else:
            kept.append(candidate)
    if len(kept) == 1:
        return kept[0]
    return of_atom(form(tuple(sorted(kept, key=lambda e: (e.is_constant, e.text)))))


def _spread(form: type[Min] | type[Max], e: Expr) -> Iterable[Expr]:
    """Return the operands of a minimum or maximum, scaled and moved as it is; the expression where it is none.

    2 * max(n, 0) - 1  ->  2 * n - 1, -1
    """
    shift = e.constant_term
    if len(e.terms) == (2 if shift else 1):
        monomial, scale = e.terms[0]
        if len(monomial) == 1 and scale > 0 and isinstance(atom := monomial[0], form):
            return (inner * scale + shift for inner in atom.operands)
    return (e,)


def _merge(a: Expr, b: Expr, sign: int) -> dict[Monomial, int]:
    terms = dict(a.terms)
    for monomial, coefficient in b.terms:
        terms[monomial] = terms.get(monomial, 0) + sign * coefficient
    return terms


def build(terms: dict[Monomial, int]) -> Expr:
    """Build a sum of terms, which need not be sorted and may be 0."""
    terms = {monomial: coefficient for monomial, coefficient in terms.items() if coefficient}
    if any(isinstance(atom, Mod) for monomial in terms for atom in monomial):
        joined = _rejoin(terms)
        if joined is not None:
            return joined
    if len(terms) < 2:
        return Expr(tuple(terms.items()))
    return Expr(tuple(sorted(terms.items(), key=lambda term: (-len(term[0]), [atom.text for atom in term[0]]))))


def _rejoin(terms: dict[Monomial, int]) -> Expr | None:
    """Rewrite `q * (x // q) + x % q` as `x`, and `q * (x // q % n) + x % q` as `x % (q * n)`, with any common factor.

    None where there is no such pair.
    """
    for monomial, coefficient in terms.items():
        for i, atom in enumerate(monomial):
            if not isinstance(atom, Mod) or len(atom.denominator.terms) != 1:
                continue
            quotient = atom.numerator // atom.denominator
            if len(quotient.terms) != 1:
                continue
            rest = monomial[:i] + monomial[i + 1 :]
            divisor, scale = atom.denominator.terms[0]
            partner = product(product(rest, divisor), quotient.terms[0][0])
            wanted = coefficient * scale * quotient.terms[0][1]
            if terms.get(partner) == wanted and partner != monomial:
                remaining = {m: c for m, c in terms.items() if m not in (monomial, partner)}
                return build(remaining) + Expr(((rest, coefficient),)) * atom.numerator
            for other in terms:
                outer = next((each for each in other if isinstance(each, Mod) and each.numerator == quotient), None)
                if outer is None or other == monomial or terms[other] != coefficient * scale:
                    continue
                if other == product(product(rest, divisor), (outer,)):
                    remaining = {m: c for m, c in terms.items() if m not in (monomial, other)}
                    whole = atom.numerator % (atom.denominator * outer.denominator)
                    return build(remaining) + Expr(((rest, coefficient),)) * whole
    return None


class Substitution(Evaluation):
    """Build an expression anew, with expressions for some of its variables."""

    def const(self, n: int) -> Expr:
        return const(n)

    def var(self, name: str) -> Expr:
        return as_expr(self.values[name]) if name in self.values else var(name)

    def minimum(self, operands: list[Expr]) -> Expr:
        return minimum(*operands)

    def maximum(self, operands: list[Expr]) -> Expr:
        return maximum(*operands)


# Division is made of expressions, and `//` and `%` of expressions are divisions.
from ninetoothed.expr import division  # noqa: E402

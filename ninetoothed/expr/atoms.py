"""Atoms of expressions, their products, and how they print."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, cast

from ninetoothed.expr.folds import Algebra, T

if TYPE_CHECKING:
    from ninetoothed.expr.algebra import Expr


@dataclass(frozen=True, eq=False, repr=False)
class Canonical:
    """Compared by its printed form, which is unique because the form is canonical."""

    @cached_property
    def text(self) -> str:
        return self._print()

    @cached_property
    def _hash(self) -> int:
        return hash(self.text)

    def _print(self) -> str:
        raise NotImplementedError

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self.text

    def __getstate__(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # cached hashes differ by process

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)


class _Atom(Canonical):
    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, type(self)) and self.text == other.text)

    __hash__ = Canonical.__hash__


@dataclass(frozen=True, eq=False, repr=False)
class Var(_Atom):
    name: str
    operands: ClassVar[tuple[Expr, ...]] = ()

    def _print(self) -> str:
        return self.name

    def _fold(self, algebra: Algebra[T], known: dict[Atom, T]) -> T:
        return algebra.var(self.name)


@dataclass(frozen=True, eq=False, repr=False)
class _Division(_Atom):
    numerator: Expr
    denominator: Expr
    sign: ClassVar[str]
    form: ClassVar[str]

    @property
    def operands(self) -> tuple[Expr, Expr]:
        return self.numerator, self.denominator

    def _print(self) -> str:
        return f"{_parenthesised(self.numerator)} {self.sign} {_parenthesised(self.denominator)}"

    def _fold(self, algebra: Algebra[T], known: dict[Atom, T]) -> T:
        atom = cast("FloorDiv | Mod", self)
        if atom not in known:
            known[atom] = getattr(algebra, self.form)(*(operand.fold(algebra, known) for operand in self.operands))
        return known[atom]


class FloorDiv(_Division):
    sign, form = "//", "floordiv"


class Mod(_Division):
    sign, form = "%", "mod"


@dataclass(frozen=True, eq=False, repr=False)
class _Extremum(_Atom):
    operands: tuple[Expr, ...]
    form: ClassVar[str]

    def _print(self) -> str:
        return f"{self.form[:3]}({', '.join(operand.text for operand in self.operands)})"

    def _fold(self, algebra: Algebra[T], known: dict[Atom, T]) -> T:
        folded: T = getattr(algebra, self.form)([operand.fold(algebra, known) for operand in self.operands])
        return folded


class Min(_Extremum):
    form = "minimum"


class Max(_Extremum):
    form = "maximum"


Atom = Var | FloorDiv | Mod | Min | Max
Monomial = tuple[Atom, ...]
Terms = tuple[tuple[Monomial, int], ...]


def print_sum(terms: Terms) -> str:
    """Print a sum as Python writes it."""
    if not terms:
        return "0"
    # A positive term first, so that `b - a` is not printed as `-a + b`.
    first = next((i for i, (monomial, c) in enumerate(terms) if c > 0 and monomial), 0)
    ordered = (terms[first], *terms[:first], *terms[first + 1 :])
    text = ""
    for monomial, coefficient in ordered:
        term = _print_term(monomial, abs(coefficient))
        if text:
            text += f" - {term}" if coefficient < 0 else f" + {term}"
        elif coefficient < 0:
            # `-a // b` would be `(-a) // b`.
            text = f"-({term})" if " // " in term or " % " in term else f"-{term}"
        else:
            text = term
    return text


def _print_term(monomial: Monomial, coefficient: int) -> str:
    if not monomial:
        return str(coefficient)
    if coefficient == 1 and len(monomial) == 1:
        return monomial[0].text
    factors = [f"({a.text})" if isinstance(a, FloorDiv | Mod) else a.text for a in monomial]
    return " * ".join(([str(coefficient)] if coefficient != 1 else []) + factors)


def _parenthesised(e: Expr) -> str:
    """Print an operand of `//` or `%`, in parentheses where it needs them."""
    simple = e.is_constant and e.constant >= 0
    if not simple and len(e.terms) == 1:
        monomial, coefficient = e.terms[0]
        simple = coefficient == 1 and len(monomial) == 1 and not isinstance(monomial[0], FloorDiv | Mod)
    return e.text if simple else f"({e.text})"


def variables_of(atom: Atom) -> frozenset[str]:
    """Return the names of all variables in an atom."""
    own = (atom.name,) if isinstance(atom, Var) else ()
    return frozenset(own).union(*(operand.variables for operand in atom.operands))


def product(a: Monomial, b: Monomial) -> Monomial:
    """Multiply two monomials."""
    return tuple(sorted(a + b, key=lambda atom: atom.text)) if a and b else a or b


def without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """Divide a monomial by one that is part of it; None if it is not."""
    remaining = list(monomial)
    for atom in part:
        if atom not in remaining:
            return None
        remaining.remove(atom)
    return tuple(remaining)


def common_factor(monomials: list[Monomial]) -> Monomial:
    """Find the greatest monomial that divides all."""
    common = list(monomials[0])
    for monomial in monomials[1:]:
        remaining = list(monomial)
        kept = []
        for atom in common:
            if atom in remaining:
                remaining.remove(atom)
                kept.append(atom)
        common = kept
    return tuple(common)

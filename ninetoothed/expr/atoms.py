"""Atoms of expressions, their products, and how they print."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

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
        return isinstance(other, type(self)) and self.text == other.text

    __hash__ = Canonical.__hash__


@dataclass(frozen=True, eq=False, repr=False)
class Var(_Atom):
    name: str

    def _print(self) -> str:
        return self.name

    def _fold(self, algebra: Algebra[T], known: dict[Atom, T]) -> T:
        return algebra.var(self.name)


@dataclass(frozen=True, eq=False, repr=False)
class FloorDiv(_Atom):
    numerator: Expr
    denominator: Expr

    def _print(self) -> str:
        return f"{_parenthesised(self.numerator)} // {_parenthesised(self.denominator)}"

    def _fold(self, algebra: Algebra[T], known: dict[Atom, T]) -> T:
        if self not in known:
            known[self] = algebra.floordiv(self.numerator.fold(algebra, known), self.denominator.fold(algebra, known))
        return known[self]


@dataclass(frozen=True, eq=False, repr=False)
class Mod(_Atom):
    numerator: Expr
    denominator: Expr

    def _print(self) -> str:
        return f"{_parenthesised(self.numerator)} % {_parenthesised(self.denominator)}"

    def _fold(self, algebra: Algebra[T], known: dict[Atom, T]) -> T:
        if self not in known:
            known[self] = algebra.mod(self.numerator.fold(algebra, known), self.denominator.fold(algebra, known))
        return known[self]


@dataclass(frozen=True, eq=False, repr=False)
class Min(_Atom):
    operands: tuple[Expr, ...]

    def _print(self) -> str:
        return f"min({', '.join(operand.text for operand in self.operands)})"

    def _fold(self, algebra: Algebra[T], known: dict[Atom, T]) -> T:
        return algebra.minimum([operand.fold(algebra, known) for operand in self.operands])


@dataclass(frozen=True, eq=False, repr=False)
class Max(_Atom):
    operands: tuple[Expr, ...]

    def _print(self) -> str:
        return f"max({', '.join(operand.text for operand in self.operands)})"

    def _fold(self, algebra: Algebra[T], known: dict[Atom, T]) -> T:
        return algebra.maximum([operand.fold(algebra, known) for operand in self.operands])


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
    if isinstance(atom, Var):
        return frozenset((atom.name,))
    operands = atom.operands if isinstance(atom, Min | Max) else (atom.numerator, atom.denominator)
    return frozenset().union(*(operand.variables for operand in operands))


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

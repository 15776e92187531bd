"""Integer expressions as text. Triton's `//` and `%` truncate; where an operand may be negative, the text floors."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ninetoothed.backends.triton import syntax
from ninetoothed.expr import Expr, Facts, FloorDiv, Max, Min, Mod, Var, is_nonnegative


@dataclass(frozen=True)
class ExprPrinter:
    """Prints expressions.

    `variable` gives the text of a variable; `keep` names the text of an expression that is used twice; summands over
    `lanes` come last.
    """

    variable: Callable[[str], ast.expr]
    facts: Facts
    keep: Callable[[Expr, ast.expr], ast.expr]
    lanes: frozenset[str] = frozenset()

    def __call__(self, e: Expr) -> ast.expr:
        terms, constant = self._with_ceilings(e)
        positive = [(m, c) for m, c in terms if c > 0]
        negative = [(m, -c) for m, c in terms if c < 0]
        (positive if constant > 0 else negative).extend([((), abs(constant))] if constant else [])
        positive.sort(key=self._has_lanes)
        if not positive:
            return (
                syntax.negate(syntax.chain("+", [self._term(*t) for t in negative])) if negative else syntax.number(0)
            )
        node = syntax.chain("+", [self._term(*t) for t in positive])
        for term in negative:
            node = syntax.binary("-", node, self._term(*term))
        return node

    def _with_ceilings(self, e: Expr):
        """Return terms and constant, in which `(n - 1) // d + 1` is the atom `_Ceiling(n, d)`.

        If n is 0, truncating division of n - 1 would be wrong.
        """
        constant = e.constant_term
        terms: list[tuple[tuple[Any, ...], int]] = []
        for monomial, coefficient in e.terms:
            if not monomial:
                continue
            atom = monomial[0]
            if len(monomial) == 1 and isinstance(atom, FloorDiv) and 0 < coefficient <= constant:
                above = atom.numerator + 1
                if not is_nonnegative(atom.numerator, self.facts) and is_nonnegative(above, self.facts):
                    terms.append(((_Ceiling(above, atom.denominator),), coefficient))
                    constant -= coefficient
                    continue
            terms.append((monomial, coefficient))
        return terms, constant

    def _has_lanes(self, term) -> bool:
        return any(_variables(atom) & self.lanes for atom in term[0])

    def _term(self, monomial, coefficient: int) -> ast.expr:
        factors = [self._atom(atom) for atom in monomial]
        if coefficient != 1 or not factors:
            factors.append(syntax.number(coefficient))
        return syntax.chain("*", factors)

    def _atom(self, atom) -> ast.expr:
        """Print an atom."""
        match atom:
            case Var(name):
                return self.variable(name)
            case _Ceiling(numerator, denominator):
                return syntax.call("tl.cdiv", self(numerator), self(denominator))
            case FloorDiv(numerator, denominator):
                return self._divide(numerator, denominator)
            case Mod(numerator, denominator):
                return self._remainder(numerator, denominator)
            case Min(operands):
                return self._extremum("tl.minimum", operands)
            case Max(operands):
                return self._extremum("tl.maximum", operands)
        raise AssertionError(f"no text for {atom!r}")

    def _divide(self, n: Expr, d: Expr) -> ast.expr:
        if d.is_constant and d.constant > 1 and n.constant_term == d.constant - 1 and is_nonnegative(n, self.facts):
            return syntax.call("tl.cdiv", self(n - d + 1), self(d))
        numerator, divisor = self._operand(n), self(d)
        if is_nonnegative(n, self.facts):
            return syntax.binary("//", numerator, divisor)
        if _is_power_of_two(d):
            return syntax.binary(">>", numerator, syntax.number(d.constant.bit_length() - 1))
        numerator = self.keep(n, numerator)
        return syntax.binary("//", syntax.binary("-", numerator, _floor_mod(numerator, divisor)), divisor)

    def _remainder(self, n: Expr, d: Expr) -> ast.expr:
        numerator, divisor = self._operand(n), self(d)
        if is_nonnegative(n, self.facts):
            return syntax.binary("%", numerator, divisor)
        if _is_power_of_two(d):
            return syntax.binary("&", numerator, syntax.number(d.constant - 1))
        return _floor_mod(numerator, divisor)

    def _operand(self, n: Expr) -> ast.expr:
        """Print a numerator; one with lanes gets a name, since most are divided more than once."""
        return self.keep(n, self(n)) if n.variables & self.lanes and n.sole_atom is None else self(n)

    def _extremum(self, function: str, operands) -> ast.expr:
        node, *rest = [self(operand) for operand in operands]
        for operand in rest:
            node = syntax.call(function, node, operand)
        return node


@dataclass(frozen=True)
class _Ceiling:
    numerator: Expr
    denominator: Expr


def _variables(atom) -> frozenset[str]:
    return atom.numerator.variables if isinstance(atom, _Ceiling) else Expr((((atom,), 1),)).variables


def _floor_mod(n: ast.expr, d: ast.expr) -> ast.expr:
    """Print `(n % d + d) % d`: in [0, d) whatever the sign of n."""
    return syntax.binary("%", syntax.binary("+", syntax.binary("%", n, d), d), d)


def _is_power_of_two(e: Expr) -> bool:
    return e.is_constant and e.constant > 0 and e.constant & (e.constant - 1) == 0


def terms(e: Expr) -> tuple[Expr, ...]:
    """Return the summands of an expression."""
    return tuple(Expr((term,)) for term in e.terms)

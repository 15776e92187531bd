"""Expressions without the `//`, `%`, `min` and `max` that facts decide."""

import math
from dataclasses import dataclass

from ninetoothed.expr.algebra import Expr, as_expr, const, maximum, minimum, of_atom, var
from ninetoothed.expr.atoms import FloorDiv, Mod, Var
from ninetoothed.expr.facts import Facts
from ninetoothed.expr.intervals import bounds, term_divisor
from ninetoothed.expr.proof import is_nonnegative, split


def simplify(e: Expr, facts: Facts) -> Expr:
    """`e` without the `//`, `%`, `min` and `max` that the ranges decide."""
    e = as_expr(e)
    if all(isinstance(atom, Var) and facts.range_of(atom.name).value is None for atom in e.atoms):
        return e
    if e not in facts.simplified:
        facts.simplified[e] = e.fold(_Simplification(facts))
    return facts.simplified[e]


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
                    quotient = quotient - of_atom(atom) + steps if split(quotient, atom)[0] == 1 else quotient
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
        terms = [(m, c) for m, c in a.terms if m and term_divisor(m, c, self.facts) % b.constant == 0]
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

"""Simplification: expressions without the `//`, `%`, `min` and `max` that facts decide."""

import math
from dataclasses import dataclass

from ninetoothed.expr.algebra import Expr, ExprLike, Substitution, as_expr, const, maximum, minimum, of_atom, var
from ninetoothed.expr.atoms import FloorDiv, Mod, Var
from ninetoothed.expr.facts import Facts
from ninetoothed.expr.intervals import bounds, term_divisor
from ninetoothed.expr.proof import is_nonnegative, split


def simplify(e: ExprLike, facts: Facts) -> Expr:
    """Rewrite `e` without the `//`, `%`, `min` and `max` that facts decide.

    >>> simplify(var("i") // 4, Facts().bind("i", 0, 3))
    0
    """
    expr = as_expr(e)
    if all(
        isinstance(atom, Var) and facts.range_of(atom.name).value is None
        for monomial, _ in expr.terms
        for atom in monomial
    ):
        return expr
    if expr not in facts.simplified:
        facts.simplified[expr] = expr.fold(_Simplification({}, facts))
    return facts.simplified[expr]


@dataclass(frozen=True)
class _Simplification(Substitution):
    facts: Facts

    def var(self, name: str) -> Expr:
        value = self.facts.range_of(name).value
        return var(name) if value is None else const(value)

    def floordiv(self, a: Expr, b: Expr) -> Expr:
        if b == 0:  # an empty dimension: no element asks for its index
            return a
        whole, rest = self.split_multiples(a, b)
        blocks = self.blocks(rest, b)
        if blocks is not None:
            size, count, _ = blocks
            return whole // b + self.floordiv(count, const(b.constant // size))
        quotient = rest // b
        for atom in quotient.atoms:
            if isinstance(atom, FloorDiv):
                steps = self.steps(atom.numerator, atom.denominator)
                if steps is not None:
                    quotient = quotient - of_atom(atom) + steps if split(quotient, atom)[0] == 1 else quotient
        return whole // b + quotient

    def mod(self, a: Expr, b: Expr) -> Expr:
        if b == 0:
            return const(0)
        _, rest = self.split_multiples(a, b)
        blocks = self.blocks(rest, b)
        if blocks is not None:
            size, count, within = blocks
            return self.mod(count, const(b.constant // size)) * size + within
        remainder = rest % b
        atom = remainder.sole_atom
        if isinstance(atom, Mod):
            steps = self.steps(atom.numerator, atom.denominator)
            if steps is not None:
                return atom.numerator - steps * atom.denominator
        return remainder

    def split_multiples(self, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        """Give `(whole, rest)` with `a == whole + rest`, every term of `whole` a known multiple of a constant `b`."""
        if not b.is_constant or b.constant <= 1:
            return const(0), a
        terms = [(m, c) for m, c in a.terms if m and term_divisor(m, c, self.facts) % b.constant == 0]
        whole = sum((Expr((term,)) for term in terms), start=const(0))
        return whole, a - whole

    def blocks(self, a: Expr, b: Expr) -> tuple[int, Expr, Expr] | None:
        """Give `(size, count, within)` where a == size * count + within, 0 <= within < size, and size divides b.

        So (128 * k + lane) // 512 == k // 4 and (128 * k + lane) % 512 == 128 * (k % 4) + lane.
        """
        if not b.is_constant or b.constant <= 1:
            return None
        sizes = {math.gcd(c, b.constant) for m, c in a.terms if m} - {1, b.constant}
        for size in sorted(sizes, reverse=True):
            count = Expr(tuple((m, c // size) for m, c in a.terms if m and c % size == 0))
            within = a - count * size
            low, high = bounds(within, self.facts)
            if low is not None and high is not None and 0 <= low and high < size:
                return size, count, within
        return None

    def steps(self, a: Expr, b: Expr) -> int | None:
        """Tell the quotient if it is known to be one number."""
        if b.is_constant:
            low, high = bounds(a, self.facts)
            if low is not None and high is not None and low // b.constant == high // b.constant:
                return low // b.constant
        proved = is_nonnegative(a, self.facts) and is_nonnegative(b - 1 - a, self.facts)
        return 0 if proved else None

    # Assumptions come and go with guards: a size that drops its `max` with them would have two forms.

    def minimum(self, operands: list[Expr]) -> Expr:
        return minimum(*self.undominated(operands, 1))

    def maximum(self, operands: list[Expr]) -> Expr:
        return maximum(*self.undominated(operands, -1))

    def undominated(self, operands: list[Expr], sign: int) -> list[Expr]:
        kept, ranges = list(operands), self.facts.bare or self.facts
        for operand in operands:
            others = [other for other in kept if other is not operand]
            if any(is_nonnegative((operand - other) * sign, ranges) for other in others):
                kept = others
        return kept

"""Proofs that an expression is at least 0. One that is not found is never a proof of the contrary.

A proof of `e >= 0` replaces one variable or atom of `e` at a time by a bound that makes `e` smaller, until a constant
is left. Bounds may be symbolic (a lane is at most `size - 1`), so variables bound last are replaced first.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ninetoothed.expr.algebra import Expr, ExprLike, as_expr, const, of_atom
from ninetoothed.expr.atoms import Atom, FloorDiv, Max, Min, Mod, Var
from ninetoothed.expr.facts import Facts, refuted
from ninetoothed.expr.intervals import bounds

_BUDGET = 60  # steps of one proof: enough for every arrangement seen, and a bound on the time of a hopeless one


def is_nonnegative(e: ExprLike, facts: Facts) -> bool:
    """Tell whether `e >= 0` is proved; a negative answer proves nothing."""
    expr = as_expr(e)
    if expr.is_constant:
        return expr.constant >= 0
    if expr not in facts.proofs:
        facts.proofs[expr] = _proves(expr, facts)
    return facts.proofs[expr]


def _proves(e: Expr, facts: Facts) -> bool:
    low = bounds(e, facts)[0]
    if low is not None and low >= 0:
        return True
    values, scaled = facts.scaled
    try:
        return _Proof(scaled).nonnegative(e.subs(values))
    except _GaveUp:
        return False


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
        """Tell whether an expression is proved to be at least 0."""
        low = bounds(e, self.facts)[0]
        if low is not None:
            if low >= 0:
                return True
            if e.is_constant:
                return False
        if e in self.tried or refuted(e, self.facts):
            return e in self.proved
        if not self.left:
            raise _GaveUp
        self.tried.add(e)
        self.left -= 1
        found = any(self.nonnegative(smaller) for smaller in self.smaller(e))
        if found:
            self.proved.add(e)
        return found

    def smaller(self, e: Expr) -> Iterator[Expr]:
        """Yield expressions that are at least 0 only where `e` is."""
        yield from _without_quotient(e)
        for atom in sorted(e.atoms, key=self.rank, reverse=True):
            coefficient, rest = split(e, atom)
            sign = self.sign(coefficient)
            if sign:
                for bound in self.bounds_of(atom, coefficient, lower=sign > 0):
                    if bound is not None:
                        yield coefficient * bound + rest
        for slack in self.facts.slacks:
            if (less := _less_a_multiple(e, slack)) is not None:
                yield less

    def rank(self, atom: Atom) -> tuple[int, int]:
        """Rank atoms: those of variables bound later, and of more variables, are replaced earlier."""
        names = (atom.name,) if isinstance(atom, Var) else as_expr(of_atom(atom)).variables
        return max((self.order.get(name, -1) for name in names), default=-1), len(of_atom(atom).text)

    def sign(self, e: Expr) -> int:
        """Tell the sign of `e`; 0 if it is not known."""
        if e.is_constant:
            return (e.constant > 0) - (e.constant < 0)
        if self.nonnegative(e):
            return 1
        return -1 if self.nonnegative(-e) else 0

    def bounds_of(self, atom: Atom, coefficient: Expr, lower: bool) -> "Iterator[Expr | _Quotient | None]":
        """Yield bounds of an atom that has a coefficient; None for one that is not known."""
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

    def bounds_of_remainder(self, atom: Mod, lower: bool) -> Iterator[Expr]:
        if lower:
            yield const(0)
            return
        yield atom.denominator - 1
        if self.nonnegative(atom.numerator):
            yield atom.numerator

    def bounds_of_quotient(self, atom: FloorDiv, coefficient: Expr, lower: bool) -> "Iterator[Expr | _Quotient]":
        a, b = atom.numerator, atom.denominator
        for bound in self.symbolic_bounds(a, lower):
            yield bound // b
        times, rest = _exactly(coefficient, b)
        if rest == 0:
            # b * (a // b) lies in [a - b + 1, a]; the caller multiplies by the coefficient, `times * b`.
            yield _Quotient(times, a - b + 1 if lower else a)
        if self.nonnegative(a if lower else b - 1 - a):
            yield const(0)

    def symbolic_bounds(self, a: Expr, lower: bool) -> Iterator[Expr]:
        """Yield bounds of an expression that are themselves expressions in variables bound earlier."""
        for lo, hi in self.facts.assumed.get(a - a.constant_term, ()):
            bound = lo if lower else hi
            if bound is not None:
                yield bound + a.constant_term
        yield from self.eliminated(a, lower)
        for slack in self.facts.slacks if lower else ():
            times = _times(a, slack)
            if (rest := _less_a_multiple(a * times, slack, more=len(slack.terms))) is not None:
                # times * a >= rest
                yield from ((bound + (times - 1)) // times for bound in self.eliminated(rest, lower))

    def eliminated(self, a: Expr, lower: bool) -> Iterator[Expr]:
        """Yield bounds of `a` without one of its variables, and with one fewer each time."""
        left = a
        for atom in sorted(a.atoms, key=self.rank, reverse=True):
            if isinstance(atom, Var):
                single = self.replaced(a, atom, lower)
                if left is not a and single is not None:
                    yield single
                smaller = self.replaced(left, atom, lower) if atom in left.atoms else None
                if smaller is not None:
                    left = smaller
                    yield left

    def replaced(self, a: Expr, atom: Var, lower: bool) -> Expr | None:
        """Put its bound for a variable; None where none is known."""
        coefficient, rest = split(a, atom)
        sign, known = self.sign(coefficient), self.facts.range_of(atom.name)
        bound = known.lo if (sign > 0) == lower else known.hi
        return coefficient * bound + rest if sign and bound is not None else None


@dataclass(frozen=True)
class _Quotient:
    """Stands for `a // b` bounded by `bound / b`: multiplied by `times * b` it is `times * bound`."""

    times: Expr
    bound: Expr

    def __rmul__(self, coefficient: Expr) -> Expr:
        return self.times * self.bound


def _exactly(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    quotient = a // b
    return quotient, a - quotient * b


def split(e: Expr, atom: Atom) -> tuple[Expr, Expr]:
    """Give `(c, r)` with `e == c * atom + r` and `r` free of the atom (as a factor)."""
    coefficient, rest = {}, {}
    for monomial, c in e.terms:
        if atom in monomial:
            i = monomial.index(atom)
            coefficient[monomial[:i] + monomial[i + 1 :]] = c
        else:
            rest[monomial] = c
    return Expr(tuple(coefficient.items())), Expr(tuple(rest.items()))


def _times(e: Expr, slack: Expr) -> int:
    """Return the number of times that a term of `e` is in one of `slack`: of `n` in `8 * n - i`, 8; 1 where in none."""
    terms = dict(e.terms)
    counts = (c // terms[m] for m, c in slack.terms if m and m in terms and c % terms[m] == 0)
    return next((count for count in counts if count > 1), 1)


def _less_a_multiple(e: Expr, slack: Expr, more: int = 0) -> Expr | None:
    """Give `e - k * slack` for the `k >= 1` that cancels a term, if that leaves at most `more` more terms."""
    terms = dict(e.terms)
    for monomial, c in slack.terms:
        k = terms.get(monomial, 0) // c if monomial and terms.get(monomial, 0) % c == 0 else 0
        if k >= 1 and len((rest := e - slack * k).terms) <= len(e.terms) + more:
            return rest
    return None


def _without_quotient(e: Expr) -> Iterator[Expr]:
    """Multiply `r - a // b` by its denominator: that is at least 0 just where `b * r + b - 1 - a` is."""
    for monomial, c in e.terms:
        if c == -1 and len(monomial) == 1 and isinstance(quotient := monomial[0], FloorDiv):
            denominator = quotient.denominator
            if denominator.is_constant and denominator.constant > 0:
                rest = e + of_atom(quotient)
                yield rest * denominator + denominator - 1 - quotient.numerator

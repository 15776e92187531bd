"""Linear forms of integer expressions in the dimensions of a tile, and the boxes in which they stay within limits.

The dimensions are the grid's axes, then the axes of the tile. An expression is split into
`sum(coefficient * x_d) + rest` over its *regular* dimensions; those that occur in a division, say, are *irregular* and
remain in the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ninetoothed.backends.torch.algebra import evaluate
from ninetoothed.expr import Atom, Expr, Var

Interval = tuple[int, int, int]  # dimension, first, count
Box = tuple[Interval, ...]
MOST_BOXES = 32


@dataclass(frozen=True)
class Symbolic:
    """An expression split before sizes are known; `names` are those of the dimensions (None: no lane runs over it).

    known: the names of sizes and strides.
    """

    expr: Expr
    names: tuple[str | None, ...]
    coefficients: tuple[Expr, ...]
    irregular: frozenset[str]
    known: frozenset[str]
    rest: Expr

    def bind(self, integers: Mapping[str, int]) -> LinearForm:
        """Substitute the values of all sizes and strides."""
        form = self
        if self.irregular:
            # With numbers, a division may vanish: by 1, say.
            divided = {name for atom in self.expr.atoms if not isinstance(atom, Var) for name in _variables(atom)}
            form = _split_again(self, tuple((name, integers[name]) for name in sorted(divided & self.known)))
        coefficients = tuple(int(evaluate(c, integers)) for c in form.coefficients)
        return LinearForm(form.expr, coefficients, None if form.irregular else form.rest)


@lru_cache(maxsize=1024)
def _split_again(form: Symbolic, numbers: tuple[tuple[str, int], ...]) -> Symbolic:
    try:
        return split(form.expr.subs(dict(numbers)), form.names, form.known)
    except ZeroDivisionError:
        return form  # A dimension is empty: nothing is in bounds.


def split(expr: Expr, names: tuple[str | None, ...], integers: Collection[str]) -> Symbolic:
    """Split `expr` over the dimensions called `names`; `integers` are the names of which the value will be known."""
    known, dimensions = frozenset(integers), frozenset(name for name in names if name)
    irregular: set[str] = set()
    for monomial, _ in expr.terms:
        varying = [atom for atom in monomial if not _variables(atom) <= known]
        if len(varying) > 1 or (varying and not isinstance(varying[0], Var)):
            irregular.update(*(_variables(atom) & dimensions for atom in varying))
    linear = expr.linear(dimensions - irregular)
    assert linear is not None, f"{expr} is linear in what is left"
    coefficients, rest = linear
    own = tuple(_ZERO if name is None else coefficients.get(name, _ZERO) for name in names)
    return Symbolic(expr, names, own, frozenset(irregular), known, rest)


_ZERO = Expr(())


def _variables(atom: Atom) -> frozenset[str]:
    return Expr((((atom,), 1),)).variables


@dataclass(frozen=True)
class LinearForm:
    """An expression as `sum(coefficient * x_d) + rest`; the rest is None where it has irregular dimensions."""

    expr: Expr
    coefficients: tuple[int, ...]
    rest: Expr | None


def within(terms: tuple[Interval, ...], low: int | None, high: int | None) -> list[Box] | None:
    """Find where `low <= sum(coefficient * x_d) <= high` for terms (d, coefficient, count), 0 <= x_d < count, as boxes.

    None where more than `MOST_BOXES` would be needed. A box names the dimensions that it restricts.
    """
    terms = tuple(sorted((term for term in terms if term[1] and term[2] > 1), key=lambda term: -abs(term[1])))
    boxes: list[Box] = []
    return boxes if _within(terms, low, high, (), boxes) else None


def _within(terms: tuple[Interval, ...], low: int | None, high: int | None, prefix: Box, boxes: list[Box]) -> bool:
    """Add the boxes within `prefix` to `boxes`; False where they are too many."""
    if not terms:
        if (low is None or low <= 0) and (high is None or high >= 0):
            boxes.append(prefix)
        return len(boxes) <= MOST_BOXES
    (dim, coefficient, count), inner = terms[0], terms[1:]
    least = sum(min(0, c * (n - 1)) for _, c, n in inner)
    most = sum(max(0, c * (n - 1)) for _, c, n in inner)
    first, last = _solve(coefficient, count, _minus(low, least), _minus(high, most))
    begin, end = _solve(coefficient, count, _minus(low, most), _minus(high, least))
    if first >= last:
        first = last = end
    if (first - begin) + (end - last) > MOST_BOXES:
        return False
    if first < last:
        whole = (first, last) == (0, count)
        boxes.append(prefix if whole else (*prefix, (dim, first, last - first)))
    for x in (*range(begin, first), *range(last, end)):
        step = coefficient * x
        if not _within(inner, _minus(low, step), _minus(high, step), (*prefix, (dim, x, 1)), boxes):
            return False
    return len(boxes) <= MOST_BOXES


def _minus(bound: int | None, amount: int) -> int | None:
    return None if bound is None else bound - amount


def _solve(coefficient: int, count: int, low: int | None, high: int | None) -> tuple[int, int]:
    """Find the range of x in [0, count) with low <= coefficient * x <= high, as (begin, end)."""
    if coefficient < 0:
        coefficient, low, high = -coefficient, _negated(high), _negated(low)
    begin = 0 if low is None else max(0, -(-low // coefficient))
    end = count if high is None else min(count, high // coefficient + 1)
    return begin, max(begin, end)


def _negated(bound: int | None) -> int | None:
    return None if bound is None else -bound


def intersect(many: list[list[Box]]) -> list[Box] | None:
    """Intersect lists of boxes: the boxes that lie in one of each; None where they are more than `MOST_BOXES`."""
    result: list[Box] = [()]
    for boxes in many:
        result = [both for a in result for b in boxes if (both := _meet(a, b)) is not None]
        if len(result) > MOST_BOXES:
            return None
    return result


def _meet(a: Box, b: Box) -> Box | None:
    intervals = {dim: (first, count) for dim, first, count in a}
    for dim, first, count in b:
        other_first, other_count = intervals.get(dim, (first, count))
        begin, end = max(first, other_first), min(first + count, other_first + other_count)
        if begin >= end:
            return None
        intervals[dim] = (begin, end - begin)
    return tuple((dim, first, count) for dim, (first, count) in intervals.items())

"""Linear forms of integer expressions in the dimensions of a tile, and the boxes in which they stay within limits.

The dimensions are the grid's axes, then the axes of the tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ninetoothed.expr import Expr

Interval = tuple[int, int, int]  # dimension, first, count
Box = tuple[Interval, ...]
MOST_BOXES = 32


@dataclass(frozen=True)
class LinearForm:
    """An expression in which numbers stand for sizes: `sum(coefficient * x_d) + rest`; no rest where it is not so."""

    expr: Expr
    coefficients: tuple[int, ...] = ()
    rest: Expr | None = None


def form_of(expr: Expr, names: tuple[str | None, ...], integers: Mapping[str, int]) -> LinearForm:
    """Split an expression over the dimensions called `names` (None: no lane runs over it), for such sizes."""
    expr = with_numbers(expr, integers)
    linear = expr.linear(name for name in names if name)
    if linear is None or not all(coefficient.is_constant for coefficient in linear[0].values()):
        return LinearForm(expr)
    coefficients, rest = linear
    return LinearForm(expr, tuple(coefficients[name].constant if name else 0 for name in names), rest)


def with_numbers(expr: Expr, integers: Mapping[str, int]) -> Expr:
    """Substitute numbers for sizes; where one divides by an empty dimension's, nothing is in bounds, and none is."""
    try:
        return expr.subs({name: integers[name] for name in expr.variables & integers.keys()})
    except ZeroDivisionError:
        return expr


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

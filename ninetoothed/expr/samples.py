"""Draw random values of variables within their ranges: one that makes an expression negative refutes `e >= 0`."""

import math
from collections.abc import Mapping, Sequence
from random import Random

from ninetoothed.expr.algebra import Expr
from ninetoothed.expr.atoms import Atom, FloorDiv, Max, Min, Mod, Var
from ninetoothed.expr.ranges import Range

Column = Sequence[int | float]


class Samples:
    """A column of values for each atom that is asked for; NaN where the ranges leave a draw no value.

    Variables are drawn when they are first asked for, each from a generator of its own, so that those of which nothing
    is asked cost nothing and the order of questions does not matter.
    """

    def __init__(self, ranges: Mapping[str, Range]):
        self._ranges = ranges
        self._columns: dict[Atom, Column] = {}

    def values(self, e: Expr, draws: Sequence[int]) -> list[int | float]:
        """Compute an expression in some of the draws."""
        totals: list[int | float] = [0] * len(draws)
        for monomial, coefficient in e.terms:
            if not monomial:
                totals = [total + coefficient for total in totals]
            elif len(monomial) == 1:
                column = self._column(monomial[0])
                totals = [total + coefficient * column[i] for total, i in zip(totals, draws)]
            else:
                columns = [self._column(atom) for atom in monomial]
                totals = [
                    total + math.prod((column[i] for column in columns), start=coefficient)
                    for total, i in zip(totals, draws)
                ]
        return totals

    def _column(self, atom: Atom) -> Column:
        column = self._columns.get(atom)
        if column is None:
            self._columns[atom] = (1,) * DRAWS  # for a variable whose bounds lead back to it
            self._columns[atom] = column = self._drawn(atom.name) if isinstance(atom, Var) else self._computed(atom)
        return column

    def _computed(self, atom: Atom) -> Column:
        if isinstance(atom, FloorDiv | Mod):
            pairs = zip(self.values(atom.numerator, _ALL), self.values(atom.denominator, _ALL), strict=True)
            if isinstance(atom, Mod):
                return [a % b if b > 0 else math.nan for a, b in pairs]
            return [a // b if b > 0 else math.nan for a, b in pairs]
        assert isinstance(atom, Min | Max)
        pick = min if isinstance(atom, Min) else max
        rows = zip(*(self.values(operand, _ALL) for operand in atom.operands), strict=True)
        return [math.nan if any(x != x for x in row) else pick(row) for row in rows]

    def _drawn(self, name: str) -> Column:
        known = self._ranges.get(name)
        random = Random(name)
        if known is None or (known.lo is None and known.hi is None):
            return [_open(1, reach, random) for reach in _REACHES]
        m = known.multiple_of
        lows, highs = self._ends(known.lo), self._ends(known.hi)
        if lows is not None and highs is not None:
            return [_between(lo, hi, m, random) for lo, hi in zip(lows, highs, strict=True)]
        if lows is not None:
            return [-(-lo // m) * m + _open(0, reach, random) * m for lo, reach in zip(lows, _REACHES, strict=True)]
        assert highs is not None
        return [hi // m * m - _open(0, reach, random) * m for hi, reach in zip(highs, _REACHES, strict=True)]

    def _ends(self, end: Expr | None) -> list[int | float] | None:
        return None if end is None else self.values(end, _ALL)


DRAWS = 128
_ALL = range(DRAWS)
_REACHES = (1, 3, 8, 40) * (DRAWS // 4)


def _open(end: int, reach: int, random: Random) -> int:
    """Draw from a range without an end.

    Sizes of one draw are often equal, or few indices would be within the extents of several tensors.
    """
    at = random.random()
    # A size of 0, the end of most open ranges, leaves no index to draw.
    return end if at < 0.05 else reach if at < 0.6 else end + int(random.random() * (reach + 1))


def _between(low: int | float, high: int | float, multiple: int, random: Random) -> int | float:
    """Draw from a range: often its ends, which refute most."""
    if not low <= high:
        return math.nan
    low, high = -(-low // multiple), high // multiple
    if low > high:
        return math.nan
    at = random.random()
    if at < 0.6:
        return multiple * (high if at < 0.2 else low)
    return multiple * (low + int(random.random() * (high - low + 1)))

"""Order programs heaviest first, so that none with much to do is left over at the end.

    pid_2 = pid % extent
->  pid_2 = extent - 1 - pid % extent

That helps where a program has more to do the greater its index is, as in a causal attention.
"""

from __future__ import annotations

from ninetoothed import ir


def grows_with(program: ir.Program, axis: str) -> bool:
    """Tell whether some loop runs longer the greater the program's index along `axis` is, and none less long."""
    slopes = {
        loop.stop.fold(_Slope(axis))
        for loop in ir.walk(program.body)
        if isinstance(loop, ir.For) and axis not in loop.start.variables and axis in loop.stop.variables
    }
    return slopes == {1}


class _Slope:
    """The direction in which an expression changes: 1 never falls, -1 never rises, 0 does not change, None unknown."""

    def __init__(self, name: str):
        self._name = name

    def const(self, n: int) -> int:
        return 0

    def var(self, name: str) -> int:
        return int(name == self._name)

    def add(self, operands: list[int | None]) -> int | None:
        changing = set(operands) - {0}
        return changing.pop() if len(changing) == 1 else None if changing else 0

    minimum = maximum = add

    def mul(self, coefficient: int, factors: list[int | None]) -> int | None:
        changing = [factor for factor in factors if factor != 0]
        if not changing:
            return 0
        # Of products only those with numbers: the sign of another factor is not known here.
        if len(factors) > 1 or changing[0] is None:
            return None
        return changing[0] if coefficient > 0 else -changing[0]

    def floordiv(self, a: int | None, b: int | None) -> int | None:
        return a if b == 0 else None

    def mod(self, a: int | None, b: int | None) -> int | None:
        return 0 if a == b == 0 else None

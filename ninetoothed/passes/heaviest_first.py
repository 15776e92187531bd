"""Order programs heaviest first, so that none with much to do is left over at the end.

    pid_2 = pid % extent
->  pid_2 = extent - 1 - pid % extent

That helps where a program has more to do the greater its index is, as in a causal attention.
"""

from __future__ import annotations

from ninetoothed import ir
from ninetoothed.expr import Expr
from ninetoothed.expr.sizes import evaluate

# Two programs, and a number for every other name, so large that it caps neither.
_FIRST, _LATER, _OTHER = 0, 1 << 20, 1 << 40


def grows_with(program: ir.Program, axis: str) -> bool:
    """Tell whether some loop runs longer the greater the program's index along `axis` is, and none less long."""
    loops = (operation for operation in ir.walk(program.body) if isinstance(operation, ir.For))
    stops = [loop.stop for loop in loops if axis in loop.stop.variables - loop.start.variables]
    return bool(stops) and all(_at(_FIRST, stop, axis) < _at(_LATER, stop, axis) for stop in stops)


def _at(program: int, e: Expr, axis: str) -> int:
    return evaluate(e, {**dict.fromkeys(e.variables, _OTHER), axis: program})

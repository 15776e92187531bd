"""Tell that a sum with an infinity is infinite, as in a softmax: x is -inf past the end, and so is x - max(x).

It would be NaN there if max(x) were -inf, too. But then all elements of x are, and their own differences are NaN.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ninetoothed import ir
from ninetoothed.expr import var
from ninetoothed.ir import Value
from ninetoothed.ir.lanes import Told, forwards, lane
from ninetoothed.language.primitive import Number
from ninetoothed.passes.overhang import contents
from ninetoothed.passes.overhang.edges import OverhangEdge, expressed

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter

# A value, the infinity that it is, and in which of its lanes: an expression for each axis, in the lanes of the sum.
Infinity = tuple[Value, Number, Told]

# Stands for all lanes of an axis, which a reduction combines.
_ALL = var("all")


def added(
    rewriter: OverhangRewriter, operation: ir.Apply, held: list[Number | None], edge: OverhangEdge
) -> Number | None:
    """Compute an infinity plus or minus an unknown number; None if it may be NaN where elements are not."""
    infinite = [number for number in held if number is not None and math.isinf(number)]
    if operation.function not in ("add", "sub") or None not in held or not infinite:
        return None
    (number,), place = infinite, held.index(None)
    lanes = {axis: lane(operation.result.type, axis) for axis in range(len(operation.result.type.lanes))}
    known = _origin(rewriter, (operation.operands[1 - place], number, lanes))
    past = {axis: e for axis, e in lanes.items() if axis not in edge.axes}
    opposite = (operation.operands[place], number if operation.function == "sub" else -number, past)
    if not _is_only_with(rewriter, opposite, known):
        return None
    return contents.computed(operation, [0 if each is None else each for each in held])


def _inside(operation: ir.Apply, place: int, number: Number, told: Told) -> Infinity:
    """Say of an operand's lanes that they are infinite: those that make lanes of the result."""
    found = {axis: expressed(e, operation.result.type, told) for axis, e in forwards(operation, place).items()}
    folded = dict.fromkeys(operation.axes.worked() if operation.primitive.folds else (), _ALL)
    return operation.operands[place], number, folded | {axis: e for axis, e in found.items() if e is not None}


def _origin(rewriter: OverhangRewriter, infinity: Infinity) -> Infinity:
    """Follow an infinity back to what it is made of by constants: `1 - 2 * x` is -inf where x is inf."""
    raw, number, told = infinity
    operation, numbers = rewriter.producers.get(raw), rewriter.numbers
    if isinstance(operation, ir.Apply) and not operation.primitive.folds and len(operation.results) == 1:
        is_assigned = operation.function == "assign"
        places = [1] if is_assigned else [p for p, each in enumerate(operation.operands) if each not in numbers]
        for each in (-math.inf, math.inf) if len(places) == 1 else ():
            if contents.computed(operation, [numbers.get(raw, each) for raw in operation.operands]) == number:
                return _origin(rewriter, _inside(operation, places[0], each, told))
    return infinity


def _is_only_with(rewriter: OverhangRewriter, infinity: Infinity, filled: Infinity) -> bool:
    """Tell whether a value is an infinity only if all of `filled` is one: max(x) is -inf only if all of x is."""
    raw, number, told = _origin(rewriter, infinity)
    if raw in rewriter.numbers:
        return rewriter.numbers[raw] != number
    if (raw, number) == filled[:2]:
        return len(told) == len(raw.type.lanes) and all(e in (_ALL, filled[2].get(axis)) for axis, e in told.items())
    match rewriter.producers.get(raw):
        case ir.Apply(function="where") as choice:
            return all(
                _is_left_out(rewriter, choice, side, number)
                or _is_only_with(rewriter, _inside(choice, side, number, told), filled)
                for side in (1, 2)
            )
        case ir.Apply(function="max" | "min" | "maximum" | "minimum") as extremum:
            is_of_all = number == contents.identity(extremum.primitive, raw.type.dtype)
            parts = (_inside(extremum, place, number, told) for place in range(len(extremum.operands)))
            return is_of_all and any(_is_only_with(rewriter, part, filled) for part in parts)
    return False


def _is_left_out(rewriter: OverhangRewriter, choice: ir.Apply, side: int, number: Number) -> bool:
    """Tell whether a choice takes the other side where this one is an infinity: `where(x == -inf, 0, x)`."""
    test = rewriter.producers.get(choice.operands[0])
    if not isinstance(test, ir.Apply):
        return False
    held = [number if each is choice.operands[side] else rewriter.numbers.get(each) for each in test.operands]
    return contents.computed(test, held) == (side == 2)

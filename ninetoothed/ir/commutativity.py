"""Prove that a combining function is commutative: that f(a, b) and f(b, a) are one expression.

    a + b                 proved: the row of `add` says so
    where(a > b, a, b)    not proved, and not so: of a NaN and a number it gives the second

Trying numbers would not do: such functions often differ in ties alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ninetoothed.ir.nodes import Apply, Constant, Lambda

_MIRRORED = {"gt": "lt", "ge": "le"}


def commutes(function: Lambda) -> bool:
    """Tell whether a function is proved to give the same with its two sides exchanged."""
    sides = range(len(function.arguments))
    half = len(sides) // 2
    numbers: dict[Any, int] = {}
    results = _numbered(function, sides, numbers)
    return results is not None and results == _numbered(function, (*sides[half:], *sides[:half]), numbers)


def _numbered(function: Lambda, arguments: Iterable[int], numbers: dict[Any, int]) -> list[int] | None:
    """Number the results: equal expressions of the arguments have equal numbers. None where not all are expressions."""
    known = dict(zip(function.arguments, arguments, strict=True))
    first = len(known)
    for operation in function.body:
        match operation:
            case Constant(result=result, value=value):
                key: Any = ("number", repr(value), result.type)
            case Apply(results=(result,)):
                name, operands = operation.function, [known[each] for each in operation.operands]
                if name in _MIRRORED:
                    name, operands = _MIRRORED[name], operands[::-1]
                if operation.primitive.is_commutative:
                    operands.sort()
                key = (name, tuple(operands), operation.attributes, result.type.dtype)
            case _:
                return None
        known[result] = numbers.setdefault(key, first + len(numbers))
    return [known[each] for each in function.yields]

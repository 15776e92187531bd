"""Formulas of sizes and strides as JSON has them, which Python evaluates and C prints.

    ("//", ("+", "size_0_0", 63), 64)     (x.shape[0] + 63) // 64
    ("==", ("%", "step_1_0", 8), 0)       y.stride(0) % 8 == 0

`size_0_1` is the size of argument 0 along dimension 1, `stride_0_1` its stride, and `step_0_1` its stride, or 0 where
there is one element along that dimension. As in `expr.sizes.evaluate`, a quotient by 0 is 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ninetoothed.expr import Expr

# A number, a name, or an operator with its operands.
Formula = int | str | tuple[Any, ...]

_NAME = re.compile(r"(size|stride|step)_(\d+)_(\d+)")
_OPERATORS: dict[str, Callable[..., int]] = {
    "+": lambda *operands: sum(operands),
    "*": lambda *operands: math.prod(operands),
    "//": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
    "==": lambda a, b: a == b,
    "<=": lambda a, b: a <= b,
    "or": lambda *operands: any(operands),
    "and": lambda *operands: all(operands),
}
_IN_C = {"+": " + ", "*": " * ", "==": " == ", "<=": " <= ", "or": " || ", "and": " && "}
_IN_PYTHON = {**_IN_C, "or": " or ", "and": " and ", "//": " // ", "%": " % "}
_UNLESS_ZERO = {"//": "quotient", "%": "remainder"}
_CALLED = {"//": "nt_quotient", "%": "nt_remainder", "min": "nt_least", "max": "nt_greatest"}


def formula_of(e: Expr, names: Mapping[str, Formula]) -> Formula:
    """Write an expression as a formula; a name that `names` lacks counts as 1."""
    formula: Formula = e.fold(_Written(names))
    return formula


class _Written:
    """The algebra of formulas; numbers are folded."""

    def __init__(self, names: Mapping[str, Formula]):
        self.names = names

    def const(self, n: int) -> Formula:
        return n

    def var(self, name: str) -> Formula:
        return self.names.get(name, 1)

    def add(self, operands: list[Formula]) -> Formula:
        return written("+", *operands)

    def mul(self, coefficient: int, factors: list[Formula]) -> Formula:
        return written("*", *([coefficient] if coefficient != 1 else []), *factors)

    def floordiv(self, a: Formula, b: Formula) -> Formula:
        return written("//", a, b)

    def mod(self, a: Formula, b: Formula) -> Formula:
        return written("%", a, b)

    def minimum(self, operands: list[Formula]) -> Formula:
        return written("min", *operands)

    def maximum(self, operands: list[Formula]) -> Formula:
        return written("max", *operands)


def written(operator: str, *operands: Formula) -> Formula:
    """Write an operation, or its number where that is known."""
    if operator in ("or", "and"):
        decided = operator == "or"
        if any(isinstance(operand, int) and bool(operand) == decided for operand in operands):
            return int(decided)
        operands = tuple(dict.fromkeys(each for each in operands if not isinstance(each, int))) or (not decided,)
    if operator == "==" and operands[0] == operands[1]:
        return 1
    if all(isinstance(operand, int) for operand in operands):
        return int(_OPERATORS[operator](*operands))
    return operands[0] if len(operands) == 1 and operator not in ("//", "%") else (operator, *operands)


def evaluate(formula: Formula, values: Mapping[str, int]) -> int:
    """Evaluate a formula: conditions give 1 or 0."""
    if isinstance(formula, int):
        return formula
    if isinstance(formula, str):
        return values[formula]
    operator, *operands = formula
    return int(_OPERATORS[operator](*(evaluate(operand, values) for operand in operands)))


def read(value: Any) -> Formula:
    """Read a formula from JSON's values; `ValueError` for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    if isinstance(value, list) and len(value) > 1 and value[0] in _OPERATORS:
        return (value[0], *map(read, value[1:]))
    raise ValueError(f"{value!r} is no formula")


def names_in(formula: Formula) -> frozenset[str]:
    """Collect the names in a formula."""
    if isinstance(formula, str):
        return frozenset((formula,))
    if isinstance(formula, int):
        return frozenset()
    return frozenset[str]().union(*map(names_in, formula[1:]))


def condition(formulas: Sequence[Formula]) -> Callable[[Mapping[str, int]], bool]:
    """Compile a function that tells whether all formulas hold, which takes a tenth of the time of evaluating each."""
    names = sorted(frozenset[str]().union(*map(names_in, formulas)))
    lines = [f"    {name} = values[{name!r}]\n" for name in names]
    text = " and ".join(f"({_in_python(formula, str)})" for formula in formulas) or "True"
    known: dict[str, Any] = {name: _OPERATORS[operator] for operator, name in _UNLESS_ZERO.items()}
    exec(f"def holds(values):\n{''.join(lines)}    return {text}\n", known)  # of names and numbers alone: see `read`
    holds: Callable[[Mapping[str, int]], bool] = known["holds"]
    return holds


def in_c(formula: Formula) -> str:
    """Print a formula in C, where names are variables of 64 bits."""
    if isinstance(formula, int):
        return f"INT64_C({formula})" if formula >= 0 else f"(-INT64_C({-formula}))"
    if isinstance(formula, str):
        return formula
    operator, *operands = formula
    texts = [in_c(operand) for operand in operands]
    if operator not in _CALLED:
        return f"({_IN_C[operator].join(texts)})"
    text = texts[0]
    for other in texts[1:]:
        text = f"{_CALLED[operator]}({text}, {other})"
    return text


def shown(formula: Formula, arguments: Sequence[str]) -> str:
    """Print a formula for users, in terms of their arguments: `x.shape[0] % 16 == 0`."""

    def named(name: str) -> str:
        what, number, dim = place(name)
        return f"{arguments[number]}.shape[{dim}]" if what == "size" else f"{arguments[number]}.stride({dim})"

    return _in_python(formula, named)


def _in_python(formula: Formula, named: Callable[[str], str]) -> str:
    if isinstance(formula, int):
        return str(formula)
    if isinstance(formula, str):
        return named(formula)
    operator, *operands = formula
    texts = [_in_python(operand, named) for operand in operands]
    called = _UNLESS_ZERO.get(operator) if not isinstance(operands[-1], int) or not operands[-1] else None
    if operator in ("min", "max") or called:
        return f"{called or operator}({', '.join(texts)})"
    is_loose = operator in _LOOSE
    inner = (
        text if is_loose and _binds(operand) > _LOOSE[operator] or _binds(operand) == 3 else f"({text})"
        for text, operand in zip(texts, operands, strict=True)
    )
    return _IN_PYTHON[operator].join(inner)


# How tightly what compares and decides binds; arithmetic is 2, and names and calls are 3.
_LOOSE = {"or": 0, "and": 0, "==": 1, "<=": 1}


def _binds(formula: Formula) -> int:
    """Tell how tightly the operator of a formula binds."""
    if isinstance(formula, int | str) or formula[0] in ("min", "max"):
        return 3
    return _LOOSE.get(formula[0], 2)


def place(name: str) -> tuple[str, int, int]:
    """Take a name apart: what it is of an argument, which argument, and which dimension."""
    found = _NAME.fullmatch(name)
    assert found is not None, name
    return found[1], int(found[2]), int(found[3])

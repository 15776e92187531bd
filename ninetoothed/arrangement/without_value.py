"""Refuse what needs the value of a size that only a call tells, each with what to do instead."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from ninetoothed.errors import ArrangementTypeError, arrangement_error
from ninetoothed.wording import brief

_FIXED = "or fix the size with `Tensor(shape=...)`"
_LOOP = f"loop in the application, where `range(x.shape[0])` runs, {_FIXED}"
_COUNT = f"give a number, {_FIXED}"
BRANCH = f'decide in the application, {_FIXED}; `Symbol("min(a, b)")` and `max` choose between sizes'
_ARITHMETIC = (
    'sizes have `+`, `-`, `*`, `//` and `%`, and `min`, `max` and `cdiv` in a text, as in `Symbol("cdiv(n, 2)")`'
)


class WithoutValue:
    """Refuse what Python's functions and operators ask of a number."""

    def _refuse(self, what: str, remedy: str) -> NoReturn:
        raise arrangement_error(f"`{self}` has no value before a call{what}", remedy, ArrangementTypeError)

    def __index__(self) -> NoReturn:
        self._refuse(", and a number is wanted", _LOOP)

    def __int__(self) -> NoReturn:
        self._refuse(", so it is no number of Python's", _COUNT)

    __float__ = __complex__ = __round__ = __trunc__ = __floor__ = __ceil__ = __int__

    def __iter__(self) -> NoReturn:
        self._refuse(", and no items", _LOOP)

    def __contains__(self, item: object) -> NoReturn:
        self._refuse(", and no items", _LOOP)

    def __format__(self, form: str) -> str:
        if form:
            self._refuse(f", which {form!r} could format", "format it without: it prints as it was written")
        return str(self)

    def __truediv__(self, other: object) -> NoReturn:
        _divide(self, other)

    def __rtruediv__(self, other: object) -> NoReturn:
        _divide(other, self)

    def _compute(self, *_: object) -> NoReturn:
        raise arrangement_error(f"`{self}` is a size, which lacks this operator", _ARITHMETIC, ArrangementTypeError)

    __pow__ = __rpow__ = __matmul__ = __rmatmul__ = __divmod__ = __rdivmod__ = __lshift__ = __rlshift__ = _compute
    __rshift__ = __rrshift__ = __or__ = __ror__ = __xor__ = __rxor__ = _compute
    __invert__ = __abs__ = _compute

    def __and__(self, other: object) -> NoReturn:
        what = f"`&` joins conditions, and `{self}` is a size"
        raise arrangement_error(what, "write for example `(x.shape[0] > 4) & (x.shape[0] < 9)`", ArrangementTypeError)

    __rand__ = __and__

    def __pos__(self) -> Any:
        return self

    # Numbers of NumPy's leave arithmetic with a size to the size.
    __array_ufunc__ = None


def _divide(left: object, right: object) -> NoReturn:
    remedy = 'write `//` to round down, or Symbol("cdiv(a, b)") to round up'
    raise arrangement_error(f"`{written(left, ast.Div(), right)}`: sizes are integers", remedy, ArrangementTypeError)


def refuse_operand(left: object, operation: ast.operator | ast.cmpop, right: object) -> NoReturn:
    """Raise the error for arithmetic of a size and what is no integer."""
    wrong = left if isinstance(right, WithoutValue) else right
    raise arrangement_error(
        f"`{written(left, operation, right)}`: sizes are integers, and {brief(wrong)} is none",
        "give an int or a symbol",
        ArrangementTypeError,
    )


def written(left: object, operation: ast.operator | ast.cmpop, right: object) -> str:
    """Write an operation as Python does, with the parentheses that it needs."""
    if isinstance(operation, ast.cmpop):
        return ast.unparse(ast.Compare(_node(left), [operation], [_node(right)]))
    return ast.unparse(ast.BinOp(_node(left), operation, _node(right)))


def _node(value: object) -> ast.expr:
    if isinstance(value, WithoutValue):
        return ast.parse(str(value), mode="eval").body
    return ast.Name(brief(value), ast.Load())

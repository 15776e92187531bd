"""Read sizes, which are ints or symbols, and choose between them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from ninetoothed import expr as algebra
from ninetoothed.arrangement.symbol import Symbol, merged_leaves
from ninetoothed.expr import Expr, maximum, minimum
from ninetoothed.wording import brief


def plain_name(size: int | Symbol) -> str:
    """Return the name of a size or stride that is a plain name."""
    assert isinstance(size, Symbol) and size.name is not None, f"{size} is no plain name"
    return size.name


def smallest(*values: Any) -> int | Symbol:
    """Return the minimum of ints and symbols: an int where all are, otherwise a symbol."""
    return _call("min", minimum, values)


def largest(*values: Any) -> int | Symbol:
    """Return the maximum of ints and symbols: an int where all are, otherwise a symbol."""
    return _call("max", maximum, values)


def as_size(value: Any) -> int | Symbol:
    """Read a size: an `int` where the value is one (or a symbol without names), else the symbol; a string is parsed.

    Raises `TypeError` for anything else.
    """
    if isinstance(value, str):
        value = Symbol(value)
    if isinstance(value, Symbol):
        return value.expr.constant if not value.leaves else value
    number = as_int(value)
    if number is None:
        raise TypeError(f"expected an int or a Symbol, got {brief(value)}")
    return number


def as_int(value: Any) -> int | None:
    """Read an integer of Python's, NumPy's or PyTorch's; None for anything else, bools among them."""
    if isinstance(value, bool | Symbol):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _call(name: str, fold: Callable[..., Expr], values: Iterable[Any]) -> int | Symbol:
    sizes = [as_size(value) for value in values]
    folded = fold(*map(algebra.as_expr, sizes))
    if folded.is_constant:
        return folded.constant
    for size in sizes:
        if algebra.as_expr(size) == folded:
            return size
    return Symbol(f"{name}({', '.join(map(str, sizes))})", _leaves=merged_leaves(*sizes))

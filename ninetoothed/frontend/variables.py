"""Read variables and free names, and iterate over sequences that are known when compiling."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.frontend import memory
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.indexing import index
from ninetoothed.frontend.operators import is_dynamic
from ninetoothed.frontend.values import UNDEFINED, Cell, TileRef, plain, shown


def read(context: TraceContext, cell: Cell) -> Any:
    """Return the value of a variable: the one assigned last, or a handle on its tile."""
    if cell.value is UNDEFINED:
        raise context.error(
            f"{cell.name!r} may not have a value here: it is assigned only inside a loop or one branch of an `if`;"
            " assign it before"
        )
    if cell.value is not None or cell.tile is None:
        return cell.value
    return cell.tile


def outside(context: TraceContext, value: Any) -> Any:
    """Read a Python object from outside the application: symbols become numbers, and NumPy's numbers Python's."""
    if isinstance(value, Symbol):
        number = context.number(value)
        unknown = number.variables - context.builder.sizes
        if unknown:
            raise context.error(
                f"the symbol `{value}` has no value in this kernel: no arrangement of its parameters uses"
                f" `{min(unknown)}`; write the size of a parameter, such as `x.shape[0]`, or a number"
            )
        return number.constant if number.is_constant else number
    if type(value).__name__ == "constexpr" and hasattr(value, "value"):
        return value.value
    return plain(value)


def snapshot(context: TraceContext, value: Any) -> Any:
    """Load a tile now, so that later stores do not change the value."""
    if isinstance(value, TileRef) and not memory.is_hierarchical(context, value):
        return memory.load(context, value)
    return value


def starred(context: TraceContext, scope: Any, nodes: list[ast.expr], evaluate: Callable[[ast.expr], Any]) -> list:
    """Apply `evaluate` to arguments; one with a star gives all of its items."""
    found: list = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            found.extend(iterate(context, context.evaluate(scope, node.value)))
        else:
            found.append(evaluate(node))
    return found


def iterate(context: TraceContext, value: Any) -> list:
    """Return the items of something whose length is known when compiling."""
    if isinstance(value, TileRef):
        (length,) = memory.shape(context, value)[:1] or (None,)
        if length is None or not length.is_constant:
            raise context.error(
                "iterate over a tile whose length is only known at run time with `for i in range(x.shape[0])`"
            )
        return [index(context, value, (i,)) for i in range(length.constant)]
    if is_dynamic(value):
        raise context.error("a computed tile cannot be unpacked or iterated over; index or `split` it")
    try:
        if not isinstance(value, Iterable):  # such as go by `__getitem__` alone, and may have no end
            raise TypeError
        return [outside(context, item) for item in value]
    except TypeError:
        raise context.error(f"{shown(value)} cannot be unpacked or iterated over; tuples and lists can") from None

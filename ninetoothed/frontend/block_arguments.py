"""Convert variables to the values that enter and leave the blocks of loops and branches, and find their types.

A variable may hold a tuple: each item that is a tile or a number is a value by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ninetoothed import dtypes, ir
from ninetoothed.arrangement.value import mapped
from ninetoothed.expr import Expr
from ninetoothed.frontend import memory, shapes
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.numbers import number_type, numeric
from ninetoothed.frontend.operators import is_number, operand
from ninetoothed.frontend.regions import write
from ninetoothed.frontend.shapes import extents_of, tile_type
from ninetoothed.frontend.values import UNDEFINED, Cell, KnownCount, OpenCount, shown
from ninetoothed.ir import TileType, Value
from ninetoothed.ir.effects import may_write


def same(a: Any, b: Any) -> bool:
    """Tell whether two values of a variable are known to be equal."""
    if isinstance(a, Value) or isinstance(b, Value):
        return a is b
    classes = (int if isinstance(v, KnownCount) else Expr if isinstance(v, OpenCount) else type(v) for v in (a, b))
    return len(set(classes)) == 1 and a == b


def materialise(context: TraceContext, cell: Cell, value: Any) -> Any:
    """Return the value of a variable, loaded where it is still in memory."""

    def single(item: Any) -> Any:
        return operand(context, item) if item is not None or cell.tile is None else memory.load(context, cell.tile)

    return mapped(single, value)


def type_of(context: TraceContext, value: Any) -> Any:
    """Return the type that holds a value; a tuple gives a tuple of types."""

    def single(value: Any) -> Any:
        if isinstance(value, Expr):
            return TileType(context.builder.index_type)
        return value.type if isinstance(value, Value) else TileType(number_type(value)) if is_number(value) else value

    return mapped(single, value)


def join(context: TraceContext, cell: Cell, a: Any, b: Any) -> Any:
    """Return the type that holds values of both types."""

    def joined(a: Any, b: Any) -> Any:
        if isinstance(a, TileType) and isinstance(b, TileType):
            pointers = [t for t in (a, b) if isinstance(t.dtype, dtypes.PointerType)]
            dtype = pointers[0].dtype if pointers else dtypes.promote(numeric(a.dtype), numeric(b.dtype))
            what = f"{cell.name!r} changes its shape from one path to the other: "
            return tile_type(dtype, shapes.broadcast(extents_of(a), extents_of(b), context.builder.require, what))
        if a == b:
            return a
        raise context.error(
            f"{cell.name!r} is {_described(a)} on one path and {_described(b)} on the other, and the choice is made at"
            " run time; let it be a number or a tile on both, before a loop that assigns it too, or give what only one"
            " path needs a name of its own"
        )

    return mapped(joined, a, b)


def _described(type: Any) -> str:
    return shown(Value(type) if isinstance(type, TileType) else type)


def _leaves(structure: Any) -> list:
    if isinstance(structure, tuple):
        return [leaf for item in structure for leaf in _leaves(item)]
    return [structure]


def convert(context: TraceContext, value: Any, type: Any) -> list:
    """Convert the leaves of a value to the leaves of `type`."""
    result = []
    for item, target in zip(_leaves(value), _leaves(type), strict=True):
        if isinstance(target, TileType):
            converted = context.builder.value(item, target.dtype)
            result.append(context.builder.broadcast_to(converted, extents_of(target)))
    return result


def fresh(context: TraceContext, cell: Cell, type: Any) -> tuple[Any, list[Value]]:
    """Make block arguments for a variable. Returns the variable's new value, and the arguments."""
    values: list[Value] = []

    def argument(type: Any) -> Any:
        values.extend([Value(type, cell.name)] if isinstance(type, TileType) else [])
        return values[-1] if isinstance(type, TileType) else type

    return mapped(argument, type), values


def equal_types(a: Any, b: Any) -> bool:
    """Tell whether types hold elements of one type in as many lanes."""

    def are_equal(a: Any, b: Any) -> bool:
        are_tiles = isinstance(a, TileType) and isinstance(b, TileType)
        return a.dtype == b.dtype and a.lanes == b.lanes if are_tiles else bool(a == b)

    return all(_leaves(mapped(are_equal, a, b)))


def define_results(
    context: TraceContext, types: dict[Cell, Any], write_log: dict[Cell, Any], *blocks: Iterable[ir.Operation]
) -> tuple[Value, ...]:
    """Give variables the results of a loop or a branch; those that only its blocks assign are undefined after it."""
    results: list[Value] = []
    for cell, before in write_log.items():
        if cell in types:
            held, values = fresh(context, cell, types[cell])
            write(context, cell, held)
            results.extend(values)
        elif before is UNDEFINED:
            write(context, cell, UNDEFINED)
    if any(may_write(block) for block in blocks):
        context.forget_loads()
    return tuple(results)

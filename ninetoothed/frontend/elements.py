"""Trace a function of elements on whole tiles: `map_elementwise`."""

from __future__ import annotations

from typing import Any

from ninetoothed import ir
from ninetoothed.arrangement.operands import several
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.effects import Flattener, check_closed
from ninetoothed.frontend.functions import tile
from ninetoothed.frontend.operators import operand
from ninetoothed.frontend.shapes import Extent, extents_of
from ninetoothed.frontend.values import name_of
from ninetoothed.ir import TileType, Value


def map_elementwise(context: TraceContext, scalar_fn: Any, args: tuple[Any, ...]) -> Any:
    """Trace a function on one element of each tile, and apply what it computes to all of them."""
    if not args:
        raise context.error(f"`map_elementwise` calls `{name_of(scalar_fn)}` on elements of tiles, and is given none")
    values = context.builder.broadcast(*(tile(context, argument) for argument in args))
    function, is_single = _traced(context, scalar_fn, values)
    results = tuple(_applied(context, function, values))
    return results[0] if is_single else results


def _traced(context: TraceContext, scalar_fn: Any, values: tuple[Value, ...]) -> tuple[ir.Lambda, bool]:
    """Trace a function of numbers without its branches; tell also whether it returns no tuple."""
    arguments = tuple(Value(TileType(value.type.dtype)) for value in values)
    loads = dict(context.loads)
    with context.builder.block() as body:
        returned = context.call(scalar_fn, arguments, {})
        if returned is None:
            raise context.error(f"`{name_of(scalar_fn)}` returns nothing; return a number, or several as a tuple")
        yields = tuple(context.builder.value(operand(context, each)) for each in several(returned))
    context.loads = loads  # What the function loads is not known after it.
    function = ir.Lambda(name_of(scalar_fn), arguments, Flattener(context=context).block(tuple(body)), yields)
    check_closed(context, function)
    return function, not isinstance(returned, tuple | list)


def _applied(context: TraceContext, function: ir.Lambda, values: tuple[Value, ...]) -> list[Value]:
    """Emit the operations of a function of numbers for tiles; numbers that depend on none of them stay numbers."""
    builder, extents = context.builder, extents_of(values[0].type)
    tiles = dict(zip(function.arguments, values, strict=True))
    for operation in function.body:
        read = [value for value in ir.reads(operation) if value in tiles]
        if isinstance(operation, ir.Apply) and operation.primitive.is_map:
            if read:
                tiles.update(zip(operation.results, _on_tiles(context, operation, tiles, extents), strict=True))
            else:
                builder.emit(operation)
        elif isinstance(operation, ir.Constant | ir.Index) and not read:
            builder.emit(operation)
        else:
            raise context.error(
                f"`{function.name}` does more than compute on elements; it may have no loops, loads, stores, prints,"
                " assertions or reductions",
                operation.location,
            )
    return [builder.broadcast_to(tiles.get(value, value), extents) for value in function.yields]


def _on_tiles(
    context: TraceContext, operation: ir.Apply, tiles: dict[Value, Value], extents: tuple[Extent, ...]
) -> tuple[Value, ...]:
    """Emit an application with tiles in place of numbers."""
    builder = context.builder
    operands = tuple(builder.broadcast_to(tiles.get(value, value), extents) for value in operation.operands)
    types = (result.type.dtype for result in operation.results)
    results = builder.apply(operation.function, operands, *types, **dict(operation.attributes))
    return results if isinstance(results, tuple) else (results,)

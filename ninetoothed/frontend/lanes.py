"""Tell which lanes of a tile hold elements, and make the variables that run over lanes.

A tile has a power of two of lanes along each axis; those past its extent hold no element. In a tile of indices or
pointers the same is true of lanes that were loaded out of bounds: nothing is read or written through them, unless the
tensor that they were loaded from has an `other`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ninetoothed import dtypes, ir
from ninetoothed.expr import Expr, var
from ninetoothed.frontend import shapes
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.shapes import extents_of, tile_type
from ninetoothed.ir import Apply, Lane, TileType, Value
from ninetoothed.ir.traversal import bottom_up


def lane(context: TraceContext, axis: int, count: int) -> Lane:
    """Return a lane variable. Its name contains its range, so that tiles alike share it."""
    variable = Lane.of(axis, count)
    context.builder.facts = context.facts.bind(variable.name, 0, count - 1)
    return variable


def lane_numbers(context: TraceContext, type: TileType, axis: int) -> Value:
    """Return the number of each lane along `axis`, of size 1 along the other axes."""
    extent = extents_of(type)[axis]
    variable = lane(context, axis, extent.lanes)
    extents = [extent if d == axis else shapes.ONE for d in range(len(type.shape))]
    return context.builder.index(var(variable.name), (variable,), tile_type(dtypes.int32, extents))


@dataclass(frozen=True)
class LaneBound:
    """A condition for lanes to hold an element: `0 <= index` (if `lower`) and `index < size` (if `upper`)."""

    index: Value
    size: Expr
    lower: bool = False
    upper: bool = True

    def moved(self, index: Value) -> LaneBound:
        """Return this bound of an index that was reshaped."""
        return replace(self, index=index)


def lane_bounds(context: TraceContext, value: Value) -> list[LaneBound]:
    """Return all bounds of a tile of indices or pointers: its own, and those of the loads that it comes from."""
    partial = [(axis, extent.size) for axis, extent in enumerate(extents_of(value.type)) if not extent.is_full]
    own = [LaneBound(lane_numbers(context, value.type, axis), size) for axis, size in partial]
    return [*own, *_read(context, value)]


def mask(context: TraceContext, limits: Iterable[LaneBound]) -> Value | None:
    """Mask the lanes that are within all bounds (int1); None for all lanes."""
    builder, result = context.builder, None
    for limit in limits:
        result = both(context, result, builder.binary("ge", limit.index, 0) if limit.lower else None)
        result = both(context, result, builder.binary("lt", limit.index, limit.size) if limit.upper else None)
    return result


def both(context: TraceContext, a: Value | None, b: Value | None) -> Value | None:
    """Combine two masks; None is one of all lanes."""
    return (b if a is None else a) if a is None or b is None else context.builder.elementwise("and", a, b)


def masked_index(context: TraceContext, index: Value) -> Value:
    """Replace an index by -1, which is always out of bounds, in lanes that hold no element."""
    known = mask(context, lane_bounds(context, index))
    if known is None:
        return index
    if index.type.dtype.category != "int":
        index = context.builder.cast(index, dtypes.int64)
    return context.builder.apply("where", (known, index, context.builder.constant(-1, index.type.dtype)))


def _read(context: TraceContext, value: Value) -> tuple[LaneBound, ...]:
    """Return the bounds of the loads that a value was computed from, lane by lane."""
    known: dict[Value, tuple[LaneBound, ...]] = {}
    producer = context.builder.producer

    def inputs(value: Value) -> tuple[Value, ...]:
        operation = producer(value)
        if not isinstance(operation, Apply):
            return ()
        # A lane without an element gives none in what is computed from it, except through `where`, which may choose.
        is_followed = operation.primitive.computes_indices or operation.primitive.moves_lanes
        return operation.operands if is_followed else ()

    def rule(value: Value) -> tuple[LaneBound, ...]:
        match producer(value):
            case ir.Load(access=access):
                source = next(p.source for p in context.definition.parameters if p.name == access.parameter)
                return () if source.other is not None else guard_bounds(context, access)  # `other` is the user's.
            case Apply(function="passed") as operation:
                access = operation.attribute("access")
                return guard_bounds(context, access) if access.edges else ()
            case Apply() as operation if operation.primitive.moves_lanes:
                found = known[operation.operands[0]]
                return tuple(limit.moved(_moved(context, operation, limit.index)) for limit in found)
        return tuple(dict.fromkeys(limit for operand in inputs(value) for limit in known[operand]))

    return bottom_up(value, known, inputs, rule)


def _moved(context: TraceContext, operation: Apply, index: Value) -> Value:
    shape = extents_of(operation.result.type)
    return context.builder.apply(operation.function, (index,), shape=shape, **dict(operation.attributes))


def guard_bounds(context: TraceContext, access: ir.Access) -> tuple[LaneBound, ...]:
    """Return the guards of an access as bounds."""
    type = access.type.with_dtype(context.builder.index_type)
    indices = (context.builder.index(guard.index, access.lanes, type) for guard in access.guards)
    return tuple(LaneBound(i, g.size, g.lower, g.upper) for i, g in zip(indices, access.guards, strict=True))

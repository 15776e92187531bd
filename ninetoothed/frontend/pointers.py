"""Compute where elements are: indices along dimensions of a source, offsets in its memory, and pointers."""

from __future__ import annotations

from ninetoothed import dtypes
from ninetoothed.arrangement.lowering import source_indices
from ninetoothed.dtypes import PointerType
from ninetoothed.expr import Expr, const, offset, var
from ninetoothed.frontend import shapes
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.jagged import entry_of_tile
from ninetoothed.frontend.lanes import guard_bounds, lane, mask
from ninetoothed.frontend.memory import access, name
from ninetoothed.frontend.numbers import numeric
from ninetoothed.frontend.values import TileRef
from ninetoothed.ir import Access, Value
from ninetoothed.wording import counted


def data_ptr(context: TraceContext, parameter: int) -> Value:
    """Return the address of a parameter's first element."""
    name = context.definition.parameters[parameter].name
    dtype = PointerType(numeric(context.argument(parameter).dtype), name)
    return context.builder.apply("data_ptr", (), dtype, parameter=name)


def offsets(context: TraceContext, ref: TileRef, dimension: int | None) -> Value:
    """Return a tile's indices along a dimension of the source; for None, its offsets in elements, strides included."""
    source = context.definition.parameters[ref.parameter].source
    if dimension is None:
        return _element_offsets(context, ref)
    if not -source.ndim <= dimension < source.ndim:
        raise context.error(
            f"{name(context, ref)!r} has a source of {counted(source.ndim, 'dimension')}: there is no dimension"
            f" {dimension}"
        )
    type = access(context, ref).type
    # Free variables show on which dimensions the index depends, even those of one element.
    unknown = tuple(f"axis_{axis}" for axis in range(len(type.shape)))
    formal = unclamped(context, ref, tuple(map(var, unknown)))[dimension]
    axes = [axis for axis, name in enumerate(unknown) if name in formal.variables]
    lanes = {axis: lane(context, position, type.lanes[axis]) for position, axis in enumerate(axes)}
    chosen = tuple(var(lanes[axis].name) if axis in lanes else const(0) for axis in range(len(type.shape)))
    expr = unclamped(context, ref, chosen)[dimension]
    extents = [shapes.extents_of(type)[axis] for axis in axes]
    used = tuple(lane for lane in lanes.values() if lane.name in expr.variables)
    return context.builder.index(expr, used, shapes.tile_type(context.builder.index_type, extents))


def unclamped(context: TraceContext, ref: TileRef, innermost: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Return the source indices of an element of a tile, correct out of bounds too."""
    has_level = ref.level < len(context.levels[ref.parameter])
    levels = (*ref.indices, innermost) if has_level else ref.indices
    return source_indices(context.arrangements[ref.parameter], levels, context.facts)


def _element_offsets(context: TraceContext, ref: TileRef) -> Value:
    place = access(context, ref)
    lanes = {lane.axis: var(lane.name) for lane in place.lanes}
    innermost = tuple(lanes.get(axis, const(0)) for axis in range(len(place.type.shape)))
    indices = unclamped(context, ref, innermost)
    entry = entry_of_tile(context, ref.parameter, ref.indices)
    if entry is not None:
        indices = (*indices[: entry.dim], entry.start + indices[entry.dim], *indices[entry.dim + 1 :])
    elif context.definition.parameters[ref.parameter].jagged is not None and not context.is_sketch:
        raise context.error(
            f"a tile of {name(context, ref)!r} has elements of several entries of its batch; tile it by 1"
        )
    return _flat(context, ref.parameter, place, indices)


def _flat(context: TraceContext, parameter: int, place: Access, indices: tuple[Expr, ...]) -> Value:
    """Return the offsets in elements of indices into a source, over the lanes of an access."""
    expr = offset(indices, map(context.number, context.definition.parameters[parameter].source.strides))
    dtype = dtypes.int64 if context.argument(parameter).wide else context.builder.index_type
    return context.builder.index(expr, place.lanes, place.type.with_dtype(dtype))


def addressed(context: TraceContext, place: Access) -> tuple[Value, Value | None]:
    """Return the pointers to the elements of an access, and the mask of those in bounds (None: all)."""
    parameter = next(i for i, each in enumerate(context.definition.parameters) if each.name == place.parameter)
    pointers = context.builder.move(data_ptr(context, parameter), _flat(context, parameter, place, place.indices))
    return pointers, mask(context, guard_bounds(context, place))

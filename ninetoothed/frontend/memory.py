"""Read and write parameters: from a handle on a tile to an `ir.Access`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ninetoothed import ir
from ninetoothed.arrangement.guards import Guard
from ninetoothed.arrangement.lowering import Location, lower, source_indices, with_axes
from ninetoothed.arrangement.operands import shape_text
from ninetoothed.arrangement.tiling import cut_alike
from ninetoothed.arrangement.value import SourceTensor
from ninetoothed.dtypes import DType, PointerType, float64
from ninetoothed.errors import ArgumentError
from ninetoothed.expr import Expr, Var, as_expr, const, maximum, var
from ninetoothed.frontend import shapes
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.jagged import entry_of
from ninetoothed.frontend.lanes import lane, lane_bounds, masked_index
from ninetoothed.frontend.numbers import holds, numeric
from ninetoothed.frontend.values import Dimension, SourceRef, TileRef
from ninetoothed.ir import Access, Lane, TileType, Value
from ninetoothed.language.types import TRITON_MAX_TENSOR_NUMEL
from ninetoothed.specialisation import ArgumentClass


def shape(context: TraceContext, ref: TileRef) -> tuple[Expr, ...]:
    """Return the shape of what a handle stands for: () for one element."""
    levels = context.levels[ref.parameter]
    return levels[ref.level] if ref.level < len(levels) else ()


def is_hierarchical(context: TraceContext, ref: TileRef) -> bool:
    """Tell whether the elements of a tile are tiles themselves."""
    return ref.level < len(context.levels[ref.parameter]) - 1


def access(context: TraceContext, ref: TileRef, indices: tuple[Expr | slice | Value, ...] | None = None) -> Access:
    """Return the access of a tile, or of the elements of it that `indices` picks."""
    place = place_of(context, ref, indices)
    # Past the end of a tensor with `other`, lanes read it and count.
    is_open = context.definition.parameters[ref.parameter].source.other is None
    return place if is_open else replace(place, edges=())


def place_of(context: TraceContext, ref: TileRef, indices: tuple[Expr | slice | Value, ...] | None = None) -> Access:
    """Return the access of a tile, or of elements of it, with the edges that it has where nothing is read past them."""
    extents = shape(context, ref)
    chosen = tuple(indices or ()) + (slice(None),) * (len(extents) - len(indices or ()))
    lanes, innermost, axes = [], [], {}
    gathered = [index for index in chosen if isinstance(index, Value)]
    tile_extents, names, guards = _gathered(context, gathered)
    for index, size in zip(chosen, extents, strict=True):
        if isinstance(index, Value):
            innermost.append(next(names))
        elif isinstance(index, slice):
            try:
                tile_extent = shapes.extent(size, context.facts)
            except shapes.ShapeMismatch as error:
                raise context.error(f"parameter {name(context, ref)!r}: {error}") from None
            axes[len(innermost)] = len(tile_extents)
            if tile_extent.lanes == 1 and tile_extent.size.is_constant:
                innermost.append(const(0))
            else:
                lanes.append(lane(context, len(tile_extents), tile_extent.lanes))
                innermost.append(var(lanes[-1].name))
            tile_extents.append(tile_extent)
        else:
            innermost.append(index)
    if gathered and lanes:
        raise context.error("tiles of indices must be given for every dimension of the tile, or for none")
    levels = (*ref.indices, *((tuple(innermost),) if extents or ref.level < len(context.levels[ref.parameter]) else ()))
    place = _located(context, ref.parameter, levels, tuple(tile_extents), tuple(lanes), guards, bool(gathered))
    return _with_axes(context, ref.parameter, place, levels, axes)


def _with_axes(context: TraceContext, parameter: int, place: Access, levels: Any, axes: dict[int, int]) -> Access:
    """Note on which axes the edges lie past which a whole tile may be."""
    names = {lane.name for lane in place.lanes}
    edges = tuple(
        with_axes(edge, context.arrangements[parameter], levels, axes)
        if axes and edge.fails and not edge.index.variables & names
        else edge
        for edge in place.edges
    )
    return replace(place, edges=edges)


def _gathered(
    context: TraceContext, tiles: list[Value]
) -> tuple[list[shapes.Extent], Iterator[Expr], tuple[Guard, ...]]:
    """Broadcast tiles of indices. Returns their shape, their names, and guards for lanes that hold no index."""
    if not tiles:
        return [], iter(()), ()
    builder = context.builder
    values = builder.broadcast(*tiles)
    extents = shapes.extents_of(values[0].type)
    names = [builder.expr_of(value) for value in values]
    own = [bound for tile in tiles for bound in lane_bounds(context, tile)]
    guards = (
        Guard(builder.expr_of(builder.broadcast_to(bound.index, extents)), bound.size, bound.lower, bound.upper)
        for bound in own
    )
    return list(extents), iter(names), tuple(dict.fromkeys(guards))


def _located(
    context: TraceContext,
    parameter: int,
    levels: Any,
    extents: Iterable[shapes.Extent],
    lanes: tuple[Lane, ...],
    before: tuple[Guard, ...],
    is_gathered: bool,
) -> Access:
    """Lower indices at each level to an access of the source, guarded where they may leave it."""
    argument, own = context.argument(parameter), context.definition.parameters[parameter]
    _check_size(context, own.name, extents)
    # A loop's body is traced several times; its variables keep their names, and so the facts about them.
    names = tuple(lane.name for lane in lanes)
    entry = entry_of(context, parameter, levels, names)
    key = (parameter, levels) if entry is None else (parameter, levels, entry.start, entry.length)
    if key not in context.locations:
        arrangement = context.arrangements[parameter] if entry is None else entry.arrangement
        if context.is_sketch:
            context.locations[key] = Location(source_indices(arrangement, levels, None), ())
        else:
            bounds = None if entry is None else entry.bounds(context, parameter)
            context.locations[key] = lower(arrangement, levels, context.facts, names, bounds)
    location = context.locations[key]
    guards = (*before, *location.guards)
    edges = () if is_gathered else location.edges  # Lanes that tiles of indices reach for count.
    bindings = context.builder.bindings(*location.indices, *(e for g in (*guards, *edges) for e in g.parts))
    return Access(
        own.name,
        shapes.tile_type(numeric(argument.dtype), extents),
        location.indices,
        guards,
        other_of(context, own.source, numeric(argument.dtype)),
        lanes,
        bindings,
        edges,
    )


def _check_size(context: TraceContext, parameter: str, extents: Iterable[shapes.Extent]) -> None:
    """Raise where a parameter is loaded as a tile of too many elements."""
    count = math.prod(extent.lanes for extent in extents)
    if count > TRITON_MAX_TENSOR_NUMEL:
        raise ArgumentError(
            f"kernel {context.definition.name!r}: parameter {parameter!r} is loaded as a tile of {count} elements"
            f" (shape {shapes.text(extents)}), more than {TRITON_MAX_TENSOR_NUMEL}; choose smaller blocks or cut the"
            " dimension into tiles"
        )


def other_of(context: TraceContext, source: SourceTensor, dtype: DType) -> int | float:
    """Return the number that is read out of bounds. For integers, infinities become the least and the greatest."""
    other = 0 if source.other is None else source.other
    if dtype.is_floating:
        return float(other)
    low, high = dtype.range
    if abs(other) == math.inf:
        return low if other < 0 else high
    if not low <= other <= high or other != int(other):
        raise ArgumentError(
            f"kernel {context.definition.name!r}: parameter {source.name!r} has other={other!r}, which is no {dtype};"
            f" give a whole number from {low} to {high}, or an infinity for the nearest of them"
        )
    return int(other)


def outside(context: TraceContext, value: Any) -> int | float:
    """Return the number that stands for elements out of bounds of a tile: a parameter may have an `other`, else 0."""
    if not isinstance(value, TileRef):
        return 0
    source = context.definition.parameters[value.parameter].source
    return other_of(context, source, numeric(context.argument(value.parameter).dtype))


def _check_counters(context: TraceContext, ref: TileRef, innermost: tuple | None) -> None:
    """Require as many tiles of a tensor that is indexed by the counter of a loop over another tensor's tiles."""
    if context.conditions or not context.counters:
        return
    for level, indices in enumerate((*ref.indices, innermost or ())):
        for dim, index in enumerate(indices):
            atom = index.sole_atom if isinstance(index, Expr) else None
            if isinstance(atom, Var) and atom.name in context.counters:
                _check_counter(context, context.counters[atom.name], Dimension(ref.parameter, level, dim))


def _check_counter(context: TraceContext, counted: Dimension, taken: Dimension) -> None:
    """Require that a tile is indexed by a counter of as many tiles as it has."""
    if counted == taken:
        return
    parameters, own = context.definition.parameters, context.definition.tilings
    name, other = parameters[counted.parameter].name, parameters[taken.parameter].name
    sizes = [parameters[d.parameter].arrangement.levels[d.level][d.dim] for d in (counted, taken)]
    a, b = (as_expr(size) for size in sizes)
    message = f"{other!r} is indexed by the counter of a loop over the tiles of {name!r}, "
    are_single = all(size == 1 for level in context.levels[taken.parameter][taken.level + 1 :] for size in level)
    pairs = cut_alike(*(own[d.parameter][d.level][d.dim] for d in (counted, taken)))
    if are_single:
        context.require(maximum(a, b), b, message + "and has fewer")
    elif pairs is not None:
        for x, y in pairs:
            context.require(x.size, y.size, message + f"and both are cut into tiles of {x.block}")
    else:
        context.require(a, b, message + "and has another number of tiles")


def load(context: TraceContext, ref: TileRef, indices: tuple | None = None) -> Value:
    """Load a tile; loading it again before any store gives the same value."""
    if is_hierarchical(context, ref):
        raise context.error(
            f"{name(context, ref)!r} is a tile of tiles here (shape {shape_text(shape(context, ref))});"
            f" index it to get one of its tiles, as in `{name(context, ref)}[0]`"
        )
    argument = context.argument(ref.parameter)
    if argument.role == "scalar":
        return _scalar(context, ref.parameter, argument)
    _check_counters(context, ref, indices)
    return load_at(context, access(context, ref, indices), name(context, ref) if indices is None else None)


def load_at(context: TraceContext, place: Access, hint: str | None) -> Value:
    """Load an access, unless its value is known already."""
    key = (place.parameter, place.indices, place.guards, place.type)
    if key not in context.loads:
        result = Value(place.type, hint)
        context.builder.emit(ir.Load(result, place, location=context.builder.location))
        context.loads[key] = result
    return context.loads[key]


def _scalar(context: TraceContext, parameter: int, argument: ArgumentClass) -> Value:
    key = ("scalar", parameter)
    if key not in context.loads:
        name = context.definition.parameters[parameter].name
        result = Value(TileType(numeric(argument.dtype)), name)
        context.builder.emit(ir.ScalarArgument(result, name, location=context.builder.location))
        context.loads[key] = result
    return context.loads[key]


def target(context: TraceContext, ref: TileRef, indices: tuple | None = None) -> Access:
    """Return the access of a tile that is written, or of the elements of it that `indices` picks."""
    if is_hierarchical(context, ref):
        raise context.error(f"{name(context, ref)!r} is a tile of tiles here; index it to assign one of its tiles")
    if context.argument(ref.parameter).role != "tensor":
        raise context.error(
            f"what is assigned to {name(context, ref)!r} would be lost: it is a scalar, and the call gives a number for"
            " it; pass a 0-d tensor to store to on the kernel's device, or assign another name"
        )
    _check_counters(context, ref, indices)
    return access(context, ref, indices)


def write(context: TraceContext, place: Access, operand: Any) -> Value:
    """Store to an access, broadcasting and converting. Returns the value from before the conversion."""
    builder, value = context.builder, fitted(context, place, operand)
    builder.emit(ir.Store(place, builder.cast(value, place.type.dtype), location=builder.location))
    context.forget_loads()
    return value


def fitted(context: TraceContext, place: Access, operand: Any) -> Value:
    """Broadcast a value to the shape of an access, to which it can be stored."""
    builder, dtype = context.builder, numeric(place.type.dtype)
    if _is_beyond(dtype, operand):
        low, high = dtype.range
        text = f"cannot store {operand} to {place.parameter!r}, whose elements are {dtype}"
        raise context.error(f"{text}, from {low} to {high}; pass a tensor of a wider type")
    if isinstance(operand, Value) and isinstance(operand.type.dtype, PointerType):
        raise context.error(f"cannot store a pointer to {place.parameter!r}; `ntl.load` reads what it points to")
    what = f"cannot store to {place.parameter!r}: "
    own = dtype if isinstance(operand, float) and dtype == float64 else None  # By itself a number is float32.
    return builder.broadcast_to(builder.value(operand, own), shapes.extents_of(place.type), what)


def _is_beyond(dtype: DType, operand: Any) -> bool:
    """Tell whether a Python number is none that a type holds; an infinity is the nearest that it does."""
    if isinstance(operand, float) and dtype.is_integer and not math.isinf(operand):
        return math.isnan(operand) or not holds(dtype, int(operand))
    return isinstance(operand, int) and not holds(dtype, operand)


# -- the source behind a parameter -----------------------------------------------------------------


def source_access(context: TraceContext, ref: SourceRef, indices: tuple) -> Access:
    """Return the access of `x.source[i, j]`, of numbers or tiles, guarded where they may leave the tensor."""
    parameter = context.definition.parameters[ref.parameter]
    if parameter.jagged is not None:
        raise context.error(
            f"{parameter.name!r} is jagged, and elements of its source are not read or written by indices; index its"
            " tiles, or pass its `.values()` and `.offsets()`"
        )
    sizes = tuple(context.number(size) for size in parameter.source.sizes)
    builder = context.builder
    tiled = [i for i in indices if isinstance(i, Value) and not i.type.is_scalar]
    extents, tiles, guards = _gathered(context, tiled)
    names = []
    for index in indices:
        if isinstance(index, Value):
            names.append(builder.expr_of(masked_index(context, index)) if index.type.is_scalar else next(tiles))
        else:
            names.append(index)
    for index, size in zip(names, sizes, strict=True):
        guards += Guard(index, size).unproved(context.facts)
    type = shapes.tile_type(numeric(context.argument(ref.parameter).dtype), extents)
    bindings = builder.bindings(*names, *(guard.index for guard in guards))
    other = other_of(context, parameter.source, numeric(type.dtype))
    return Access(parameter.name, type, tuple(names), guards, other, (), bindings)


def gather(context: TraceContext, ref: SourceRef, indices: tuple) -> Value:
    """Read elements of a parameter's source."""
    place = source_access(context, ref, indices)
    result = Value(place.type)
    context.builder.emit(ir.Load(result, place, location=context.builder.location))
    return result


def name(context: TraceContext, ref: TileRef) -> str:
    """Return the name of the parameter that a handle belongs to."""
    return context.definition.parameters[ref.parameter].name

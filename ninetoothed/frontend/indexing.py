"""Trace subscripts: elements of the next level, of the innermost level, of the source, and of computed tiles.

An index written as a literal means what it means in NumPy: below zero it counts from the end, and outside a known size
it is an error. Any other, known when compiling or not, is taken as it is. Out of bounds, negative or not, a parameter
and its source read as `other` and are not written, a computed tile reads as 0.
"""

from __future__ import annotations

from typing import Any

from ninetoothed import dtypes
from ninetoothed.arrangement.operands import shape_text
from ninetoothed.expr import Expr, const, simplify
from ninetoothed.frontend import memory, remedies, shapes
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.lanes import masked_index
from ninetoothed.frontend.operators import scalar
from ninetoothed.frontend.reductions import select
from ninetoothed.frontend.shape_functions import expand_dims
from ninetoothed.frontend.shapes import extents_of
from ninetoothed.frontend.values import Literal, SourceRef, TileRef, plain, shown
from ninetoothed.ir import Value
from ninetoothed.wording import counted

_ONE = "an index into a computed tile (for a tile of indices there is `ntl.gather`)"


def index(context: TraceContext, owner: Any, indices: tuple) -> Any:
    """Index `owner[indices]`: an element of the next level, elements of a tile, or elements of the source."""
    if isinstance(owner, SourceRef):
        return memory.gather(context, owner, source_indices(context, owner, indices))
    if isinstance(owner, TileRef):
        if memory.is_hierarchical(context, owner):
            return element(context, owner, indices)
        if is_elementwise(indices):
            return memory.load(context, owner, innermost_indices(context, owner, indices))
        owner = memory.load(context, owner)
    if isinstance(owner, Value):
        return index_value(context, owner, indices)
    try:
        return plain(owner[indices[0] if len(indices) == 1 else indices])
    except (TypeError, LookupError) as error:
        raise context.error(f"{shown(owner)} cannot be indexed so: {remedies.of_python(error)}") from None


def is_elementwise(indices: tuple) -> bool:
    """Tell whether indices pick elements, rather than add axes to the whole tile."""
    picks = any(not (i is None or i is Ellipsis or isinstance(i, slice)) for i in indices)
    return picks and all(i is not None for i in indices)


def check_slices(context: TraceContext, indices: tuple) -> None:
    """Raise for a slice that takes a part of a tile: the arrangement decides how many elements a tile has."""
    if any(isinstance(i, slice) and i != slice(None) for i in indices):
        raise context.error(
            "a tile can be sliced only with a bare `:`; slice the tensor in the arrangement, index a parameter with a"
            " tile such as `ntl.arange(1, 3)`, or choose elements of a computed tile with `ntl.gather`"
        )


def element(context: TraceContext, ref: TileRef, indices: tuple) -> TileRef:
    """Return one element of the next level."""
    shape, name = memory.shape(context, ref), memory.name(context, ref)
    if any(i is None or i is Ellipsis or isinstance(i, slice) for i in indices):
        raise context.error("a tile of tiles is indexed with one number for each dimension; loop over it")
    if len(indices) != len(shape):
        raise context.error(
            f"{name!r} has {counted(len(shape), 'dimension')} at this level (shape {shape_text(shape)}) and is"
            f" indexed with {len(indices)}; give one index a dimension{_squeezing(ref, name, shape)}"
        )
    chosen = (_position(context, i, d, shape, repr(name)) for d, i in enumerate(indices))
    return TileRef(ref.parameter, (*ref.indices, tuple(_as_expr(context, i) for i in chosen)))


def _squeezing(ref: TileRef, name: str, shape: tuple[Expr, ...]) -> str:
    """Tell how the arrangement takes dimensions of size 1 away."""
    ones = [d for d, size in enumerate(shape) if size == 1]
    level = f"{name}{'.dtype' * ref.level}"
    return f", or take away one of size 1 in the arrangement: `{level} = {level}.squeeze({ones[0]})`" if ones else ""


def source_indices(context: TraceContext, ref: SourceRef, indices: tuple) -> tuple[Expr | Value, ...]:
    """Read indices into the source: numbers or tiles of numbers, one a dimension."""
    source = context.definition.parameters[ref.parameter].source
    what = f"the source of {source.name!r}"
    if any(i is None or i is Ellipsis or isinstance(i, slice) for i in indices):
        raise context.error(
            f"{what} is indexed with one number, or one tile of indices, for each dimension; write them all"
        )
    if len(indices) != source.ndim:
        rank = counted(source.ndim, "dimension")
        raise context.error(f"{what} has {rank} and is indexed with {len(indices)}; give one index a dimension")
    sizes = tuple(context.number(size) for size in source.sizes)
    return tuple(_position(context, i, d, sizes, what) for d, i in enumerate(indices))


def innermost_indices(context: TraceContext, ref: TileRef, indices: tuple) -> tuple[Expr | Value | slice, ...]:
    """Read indices into the innermost level: numbers, tiles of numbers, and bare slices."""
    shape, name = memory.shape(context, ref), memory.name(context, ref)
    if Ellipsis in [i for i in indices if i is Ellipsis]:
        at = next(n for n, i in enumerate(indices) if i is Ellipsis)
        indices = (*indices[:at], *(slice(None),) * (len(shape) - len(indices) + 1), *indices[at + 1 :])
    if len(indices) > len(shape):
        rank = counted(len(shape), "dimension")
        remedy = f"give at most {len(shape)}"
        raise context.error(f"{name!r} is a tile of {rank} and is indexed with {len(indices)}; {remedy}")
    check_slices(context, indices)
    chosen = (i if isinstance(i, slice) else _position(context, i, d, shape, repr(name)) for d, i in enumerate(indices))
    return tuple(_as_expr(context, i) if isinstance(i, Value) and i.type.is_scalar else i for i in chosen)


def _position(context: TraceContext, i: Any, dimension: int, shape: tuple[Expr, ...], what: str) -> Expr | Value:
    """Read one index along a dimension. Literals are checked, and counted from the start."""
    if isinstance(i, Value) and i.type.dtype.is_integer or isinstance(i, Expr):
        return i
    if isinstance(i, Value):
        remedy = "choose with `ntl.where`" if i.type.dtype == dtypes.int1 else "convert it with `.to(ntl.int32)`"
        raise context.error(f"an index must be an integer, not {i.type.dtype}; {remedy}")
    if isinstance(i, bool) or not hasattr(i, "__index__"):
        raise context.error(f"{what} is indexed with {shown(i)}; an index is an integer or a tile of integers")
    number, size = i.__index__(), shape[dimension]
    if not isinstance(i, Literal):
        return const(number)
    if size.is_constant and not -size.constant <= number < size.constant:
        remedy = f"use {-size.constant} to {size.constant - 1}" if size.constant else "it is empty"
        raise context.error(
            f"index {number} is out of range for dimension {dimension} of {what}, which has shape"
            f" {shape_text(shape)}; {remedy}"
        )
    return const(number) if number >= 0 else simplify(size + number, context.facts)


def _as_expr(context: TraceContext, i: Expr | Value) -> Expr:
    """Convert an index that is one number to an expression."""
    if isinstance(i, Expr):
        return i
    return context.builder.expr_of(masked_index(context, scalar(context, i, "an index")))


def index_value(context: TraceContext, value: Value, indices: tuple) -> Value:
    """Index a computed tile: `v[:, None]`, `v[0]`, `v[i, :]`."""
    axis, rank = 0, len(value.type.shape)
    given = sum(1 for index in indices if index is not None and index is not Ellipsis)
    if given > rank:
        raise context.error(
            f"a tile of shape {shapes.text(extents_of(value.type))} is indexed with {given}; give at most {rank}"
        )
    check_slices(context, indices)
    for index in indices:
        if index is Ellipsis:
            axis += rank - given
        elif index is None:
            value = expand_dims(context, value, axis)
            axis += 1
        elif isinstance(index, slice):
            axis += 1
        else:
            chosen = _position(context, index, axis, value.type.shape, "a computed tile")
            value = select(context, value, axis, chosen if isinstance(chosen, Expr) else scalar(context, chosen, _ONE))
    return value

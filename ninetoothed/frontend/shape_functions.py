"""Trace functions that rearrange, join or split the lanes of tiles, and compute nothing."""

from __future__ import annotations

import math
from typing import Any

from ninetoothed.expr import as_expr
from ninetoothed.frontend import shapes
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.functions import axis_of, known, shape_of, tile, where
from ninetoothed.frontend.lanes import LaneBound, mask
from ninetoothed.frontend.memory import outside
from ninetoothed.frontend.operators import operand
from ninetoothed.frontend.shapes import extents_of
from ninetoothed.frontend.values import shown
from ninetoothed.ir import Value
from ninetoothed.wording import counted


def broadcast(context: TraceContext, input: Any, other: Any) -> tuple[Value, ...]:
    """Broadcast two tiles to their common shape."""
    return context.builder.broadcast(tile(context, input), tile(context, other))


def broadcast_to(context: TraceContext, input: Any, shape: Any) -> Value:
    """Give a tile another shape by repeating dimensions of size 1."""
    return context.builder.broadcast_to(tile(context, input), shape_of(context, shape))


def expand_dims(context: TraceContext, input: Any, axis: Any) -> Value:
    """Add dimensions of size 1."""
    input = tile(context, input)
    for a in sorted(axis if isinstance(axis, tuple | list) else (axis,)):
        rank = len(input.type.shape) + 1
        if not isinstance(a, int) or not -rank <= a < rank:
            raise context.error(
                f"axis {shown(a)} is out of range for a tile that is to have {counted(rank, 'dimension')}"
                f"; use {-rank} to {rank - 1}"
            )
        if input.type.is_scalar:
            input = context.builder.apply("full", (input,), shape=(shapes.ONE,))
        else:
            input = context.builder.apply("expand_dims", (input,), axis=a % rank)
    return input


def squeeze(context: TraceContext, x: Any, dim: Any) -> Value:
    """Take away a dimension of size 1."""
    x = tile(context, x)
    axis, extents = axis_of(context, x, dim), list(extents_of(x.type))
    if not extents.pop(axis).is_one:
        raise context.error(
            f"`squeeze` takes away a dimension of size 1, not dimension {axis} of {x.type.shape}; index it"
        )
    return context.builder.apply("reshape", (x,), shape=extents)


def reshape(context: TraceContext, input: Any, shape: Any) -> Value:
    """Give a tile another shape of as many elements, row-major."""
    input = tile(context, input)
    shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    shape = [known(context, size, "a shape") for size in shape]
    extents = shape_of(context, _closed(context, shape, extents_of(input.type)))
    own = extents_of(input.type)
    message = (
        f"cannot reshape {shapes.text(own)} to {shapes.text(extents)}: dimensions that are split or joined must be"
        " powers of two, but for the first of each group; in the arrangement, `tile` and `flatten` take any sizes"
    )
    counts = [math.prod(extent.size for extent in each) for each in (own, extents)]
    if all(count.is_constant for count in map(as_expr, counts)) and counts[0] != counts[1]:
        raise context.error(
            f"cannot reshape {shapes.text(own)} to {shapes.text(extents)}: {counts[0]} elements are not {counts[1]};"
            " write -1 for the size that follows from the others"
        )
    if not shapes.reshapes(own, extents, message, context.builder.require):
        raise context.error(message)
    return context.builder.apply("full" if input.type.is_scalar and extents else "reshape", (input,), shape=extents)


def _closed(context: TraceContext, shape: list[Any], own: tuple[shapes.Extent, ...]) -> tuple[Any, ...]:
    """Return a shape in which the size is put for -1."""
    if -1 not in shape:
        return tuple(shape)
    if shape.count(-1) > 1:
        raise context.error(f"{tuple(shape)} leaves more than one size open; give all but one")
    count = math.prod(e.size.constant if e.size.is_constant else e.lanes for e in own)
    others = math.prod(size for size in shape if size != -1)
    if not others or count % others:
        raise context.error(
            f"cannot reshape {shapes.text(own)} to {tuple(shape)}: no size at -1 makes {count} elements"
        )
    return tuple(count // others if size == -1 else size for size in shape)


def permute(context: TraceContext, input: Any, dims: Any) -> Value:
    """Reorder dimensions; without `dims` transpose the last two."""
    input = tile(context, input)
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], tuple | list) else dims
    rank = len(input.type.shape)
    if not dims:
        if rank < 2:
            raise context.error(
                f"a tile of {counted(rank, 'dimension')} has no two that could be transposed; add one with `x[:, None]`"
            )
        dims = (*range(rank - 2), rank - 1, rank - 2)
    dims = tuple(axis_of(context, input, d) for d in dims)
    if sorted(dims) != list(range(rank)):
        raise context.error(f"{dims} is no permutation of the {rank} dimensions of a tile; name each once")
    return context.builder.apply("permute", (input,), dims=dims)


def ravel(context: TraceContext, x: Any) -> Value:
    """Give a tile one dimension."""
    return reshape(context, x, (-1,))


def join(context: TraceContext, a: Any, b: Any) -> Value:
    """Join two tiles along a new last dimension of 2."""
    dtype = context.builder.common_type(operand(context, a), operand(context, b))
    a, b = context.builder.broadcast(tile(context, a), tile(context, b))
    return context.builder.apply("join", (context.builder.cast(a, dtype), context.builder.cast(b, dtype)))


def split(context: TraceContext, a: Any) -> tuple[Value, Value]:
    """Split a tile along its last dimension of 2."""
    a = tile(context, a)
    if not a.type.lanes or a.type.lanes[-1] != 2:
        raise context.error(
            f"`split` needs a last dimension of 2, not shape {shapes.text(extents_of(a.type))}; reshape the tile first"
        )
    return context.builder.apply("split", (a,))


def interleave(context: TraceContext, a: Any, b: Any) -> Value:
    """Interleave two tiles along their last dimension; of two numbers, make a tile."""
    joined = join(context, a, b)
    *leading, two = joined.type.shape
    return reshape(context, joined, (*leading[:-1], leading[-1] * two)) if leading else joined


def cat(context: TraceContext, input: Any, other: Any, can_reorder: Any = False) -> Value:
    """Concatenate two tiles of one dimension."""
    a, b = tile(context, input), tile(context, other)
    dtype = context.builder.common_type(a, b)
    if len(a.type.shape) != 1 or len(b.type.shape) != 1 or a.type.lanes != b.type.lanes:
        shape, second = (shapes.text(extents_of(v.type)) for v in (a, b))
        raise context.error(f"`cat` joins two tiles of one dimension and of the same size, not {shape} and {second}")
    exact(context, "cat", a)
    return context.builder.apply("cat", (context.builder.cast(a, dtype), context.builder.cast(b, dtype)))


def exact(context: TraceContext, name: str, value: Value) -> None:
    """Raise where some lanes of a tile hold no element."""
    for e in extents_of(value.type):
        if not e.is_full:
            raise context.error(
                f"`{name}` needs extents that are powers of two, known when compiling, not shape"
                f" {shapes.text(extents_of(value.type))}; give the tile such a size, or where it is the whole of a"
                ' dimension, `Tensor(..., shape_options={"constexpr": True})`'
            )


def flip(context: TraceContext, x: Any, dim: Any = None) -> Value:
    """Reverse a dimension."""
    x = tile(context, x)
    axis = axis_of(context, x, -1 if dim is None else dim)
    exact(context, "flip", x)
    return context.builder.apply("flip", (x,), axis=axis)


def gather(context: TraceContext, src: Any, index: Any, axis: Any) -> Value:
    """Gather elements along an axis. Out of bounds is what a parameter has as its `other`, else 0."""
    builder, other = context.builder, outside(context, src)
    src, index = tile(context, src), tile(context, index)
    axis = axis_of(context, src, axis)
    if not index.type.dtype.is_integer:
        raise context.error(f"an index must be an integer, not {index.type.dtype}; convert it with `.to(ntl.int32)`")
    inside = mask(context, [LaneBound(index, src.type.shape[axis], lower=True)])
    found = builder.apply("gather", (src, where(context, inside, index, 0)), axis=axis)
    return where(context, inside, found, builder.constant(other, src.type.dtype))

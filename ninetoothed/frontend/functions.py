"""Trace functions of the language to primitives. Shapes and conversions are decided here."""

from __future__ import annotations

import math
from typing import Any

from ninetoothed import dtypes
from ninetoothed.dtypes import DType, PointerType
from ninetoothed.expr import as_expr, const, var
from ninetoothed.frontend import shapes
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.lanes import lane
from ninetoothed.frontend.numbers import numeric
from ninetoothed.frontend.operators import operand, truth
from ninetoothed.frontend.shapes import extents_of, tile_type, with_dtype
from ninetoothed.frontend.values import KnownCount
from ninetoothed.ir import TileType, Value
from ninetoothed.wording import counted

# -- arguments -------------------------------------------------------------------------------------


def as_dtype(context: TraceContext, value: Any) -> DType | PointerType:
    """Read a dtype however it is named: ours, PyTorch's, Triton's, or one of Python's types."""
    if isinstance(value, DType | PointerType):
        return value
    python = {float: dtypes.float32, int: dtypes.int32, bool: dtypes.int1}
    if isinstance(value, type) and value in python:
        return python[value]
    name = getattr(value, "name", None)
    dtype = _TRITON_NAMES.get(name) if isinstance(name, str) else None
    dtype = dtype or dtypes.from_torch(value)
    if dtype is None:
        raise context.error(f"{value!r} is no dtype; use one such as `ntl.float32`")
    return dtype


_TRITON_NAMES = {
    "fp16": dtypes.float16,
    "bf16": dtypes.bfloat16,
    "fp32": dtypes.float32,
    "fp64": dtypes.float64,
    "fp8e4nv": dtypes.float8e4nv,
    "fp8e5": dtypes.float8e5,
    **dtypes.BY_NAME,
}


def tile(context: TraceContext, value: Any) -> Value:
    """Convert an argument to a value."""
    return context.builder.value(operand(context, value))


def shape_of(context: TraceContext, shape: Any) -> tuple[shapes.Extent, ...]:
    """Read a shape argument, given as a tuple or as separate numbers."""
    if isinstance(shape, tuple | list) and len(shape) == 1 and isinstance(shape[0], tuple | list):
        shape = shape[0]
    if not isinstance(shape, tuple | list):
        shape = (shape,)
    return tuple(shapes.extent(_extent(context, size), context.facts) for size in shape)


def _extent(context: TraceContext, size: Any) -> Any:
    """Read one number of a shape; the size of a tile remembers which block it is."""
    if isinstance(size, KnownCount):
        place = size.dimension
        return context.levels(place.parameter)[place.level][place.dim]
    return _known(context, size, "a shape")


def _known(context: TraceContext, value: Any, what: str) -> Any:
    value = operand(context, value)
    if isinstance(value, Value):
        raise context.error(
            f"{what} must be known when compiling, not computed by the kernel; use numbers, sizes such as `x.shape[0]`,"
            " or a parameter `Tensor(0, constexpr=True)`"
        )
    return value


def axis_of(context: TraceContext, value: Value, axis: Any) -> int:
    """Read an axis of a tile, counted from the end where it is negative."""
    axis = _known(context, axis, "an axis")
    rank = len(value.type.shape)
    if not isinstance(axis, int) or not -rank <= axis < rank:
        remedy = f"use {-rank} to {rank - 1}" if rank else "it is one number"
        shape = shapes.text(extents_of(value.type))
        raise context.error(f"axis {axis!r} is out of range for a tile of shape {shape}; {remedy}")
    return axis % rank


# -- creation and conversion -----------------------------------------------------------------------


def arange(context: TraceContext, start: Any, end: Any) -> Value:
    """Trace whole numbers from `start` to `end`, exclusive; from 0 where one is given."""
    start, end = _known(context, start, "`arange`"), _known(context, end, "`arange`")
    start, end = (0, start) if end is None else (start, end)
    for bound in (start, end):
        if isinstance(bound, float):
            raise context.error(f"`arange` counts whole numbers, and is given {bound}")
    extent = shapes.extent(as_expr(end) - as_expr(start), context.facts)
    variable = lane(context, 0, extent.lanes)
    return context.builder.index(as_expr(start) + var(variable.name), (variable,), tile_type(dtypes.int32, (extent,)))


def full(context: TraceContext, shape: Any, value: Any, dtype: Any) -> Value:
    """Trace a tile of one number."""
    value = context.builder.value(operand(context, value), as_dtype(context, dtype))
    return context.builder.broadcast_to(value, shape_of(context, shape))


def zeros(context: TraceContext, shape: Any, dtype: Any) -> Value:
    """Trace a tile of zeros."""
    return full(context, shape, 0, dtype)


def zeros_like(context: TraceContext, input: Any) -> Value:
    """Trace zeros of a tile's shape and type."""
    input = tile(context, input)
    return context.builder.broadcast_to(context.builder.constant(0, input.type.dtype), extents_of(input.type))


def cast(
    context: TraceContext, input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False
) -> Value:
    """Convert to another type, by value or (`bitcast`) by bits."""
    dtype = as_dtype(context, dtype)
    input = operand(context, input)
    if bitcast:
        input = tile(context, input)
        if input.type.dtype.bits != dtype.bits:
            raise context.error(
                f"bitcast needs equal widths: {input.type.dtype} has {input.type.dtype.bits} bits, {dtype} {dtype.bits}"
            )
        return context.builder.apply("bitcast", (input,), with_dtype(input.type, dtype))
    return context.builder.cast(context.builder.value(input), dtype)


# -- shapes ----------------------------------------------------------------------------------------


def broadcast(context: TraceContext, input: Any, other: Any) -> tuple[Value, ...]:
    """Give two tiles the shape in which they meet."""
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
            raise context.error(f"axis {a!r} is out of range for a tile that is to have {rank} dimensions")
        a = a % rank
        extents = list(extents_of(input.type))
        extents.insert(a, shapes.ONE)
        if input.type.is_scalar:
            input = context.builder.apply("full", (input,), tile_type(input.type.dtype, extents))
        else:
            input = context.builder.apply("expand_dims", (input,), tile_type(input.type.dtype, extents), axis=a)
    return input


def squeeze(context: TraceContext, x: Any, dim: Any) -> Value:
    """Take away a dimension of size 1."""
    x = tile(context, x)
    axis, extents = axis_of(context, x, dim), list(extents_of(x.type))
    if not extents.pop(axis).is_one:
        raise context.error(f"`squeeze` takes away a dimension of size 1, not dimension {axis} of {x.type.shape}")
    return context.builder.apply("reshape", (x,), tile_type(x.type.dtype, extents))


def reshape(context: TraceContext, input: Any, shape: Any) -> Value:
    """Give a tile another shape of as many elements, row-major."""
    input = tile(context, input)
    shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    shape = [_known(context, size, "a shape") for size in shape]
    if shape.count(-1) > 1:
        raise context.error(f"{tuple(shape)} leaves more than one size open; give all but one")
    if -1 in shape:
        known = math.prod(size for size in shape if size != -1)
        sizes = [e.size.constant if e.size.is_constant else e.lanes for e in extents_of(input.type)]
        shape[shape.index(-1)] = math.prod(sizes) // known
    extents = shape_of(context, tuple(shape))
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
    if not extents:
        return context.builder.apply("reshape", (input,), TileType(input.type.dtype))
    if input.type.is_scalar:
        return context.builder.apply("full", (input,), tile_type(input.type.dtype, extents))
    return context.builder.apply("reshape", (input,), tile_type(input.type.dtype, extents))


def permute(context: TraceContext, input: Any, dims: Any) -> Value:
    """Reorder dimensions; without `dims` transpose the last two."""
    input = tile(context, input)
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], tuple | list) else dims
    rank = len(input.type.shape)
    if not dims:
        if rank < 2:
            raise context.error(f"a tile of {counted(rank, 'dimension')} has no two that could be transposed")
        dims = (*range(rank - 2), rank - 1, rank - 2)
    dims = tuple(axis_of(context, input, d) for d in dims)
    if sorted(dims) != list(range(rank)):
        raise context.error(f"{dims} is no permutation of the {rank} dimensions of a tile")
    extents = extents_of(input.type)
    return context.builder.apply(
        "permute", (input,), tile_type(input.type.dtype, [extents[d] for d in dims]), dims=dims
    )


def ravel(context: TraceContext, x: Any) -> Value:
    """Give a tile one dimension."""
    return reshape(context, x, (-1,))


def join(context: TraceContext, a: Any, b: Any) -> Value:
    """Join two tiles along a new last dimension of 2."""
    dtype = context.builder.common_type(operand(context, a), operand(context, b))
    a, b = context.builder.broadcast(tile(context, a), tile(context, b))
    a, b = context.builder.cast(a, dtype), context.builder.cast(b, dtype)
    return context.builder.apply("join", (a, b), tile_type(dtype, (*extents_of(a.type), shapes.Extent(const(2), 2))))


def split(context: TraceContext, a: Any) -> tuple[Value, Value]:
    """Split a tile along its last dimension of 2."""
    a = tile(context, a)
    if not a.type.lanes or a.type.lanes[-1] != 2:
        raise context.error(f"`split` needs a last dimension of 2, not shape {shapes.text(extents_of(a.type))}")
    half = tile_type(a.type.dtype, extents_of(a.type)[:-1])
    return context.builder.apply("split", (a,), half, half)


def interleave(context: TraceContext, a: Any, b: Any) -> Value:
    """Interleave two tiles along their last dimension."""
    joined = join(context, a, b)
    *leading, last, two = joined.type.shape
    return reshape(context, joined, (*leading, last * two))


def cat(context: TraceContext, input: Any, other: Any, can_reorder: Any = False) -> Value:
    """Concatenate two tiles of one dimension."""
    a, b = tile(context, input), tile(context, other)
    dtype = context.builder.common_type(a, b)
    if len(a.type.shape) != 1 or len(b.type.shape) != 1 or a.type.lanes != b.type.lanes:
        shape, second = (shapes.text(extents_of(v.type)) for v in (a, b))
        raise context.error(f"`cat` joins two tiles of one dimension and of the same size, not {shape} and {second}")
    extent = shapes.Extent(a.type.shape[0] + b.type.shape[0], a.type.lanes[0] * 2)
    exact(context, "cat", a)
    return context.builder.apply(
        "cat", (context.builder.cast(a, dtype), context.builder.cast(b, dtype)), tile_type(dtype, (extent,))
    )


def exact(context: TraceContext, name: str, value: Value) -> None:
    """Raise where some lanes of a tile are no elements of it."""
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
    return context.builder.apply("flip", (x,), x.type, axis=axis)


def gather(context: TraceContext, src: Any, index: Any, axis: Any) -> Value:
    """Gather elements along an axis."""
    src, index = tile(context, src), tile(context, index)
    axis = axis_of(context, src, axis)
    if not index.type.dtype.is_integer:
        raise context.error(f"an index must be an integer, not {index.type.dtype}; convert it with `.to(ntl.int32)`")
    return context.builder.apply("gather", (src, index), with_dtype(index.type, src.type.dtype), axis=axis)


# -- products --------------------------------------------------------------------------------------


def dot(
    context: TraceContext,
    input: Any,
    other: Any,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = None,
) -> Value:
    """Multiply matrices, along the last two dimensions."""
    builder = context.builder
    a, b = tile(context, input), tile(context, other)
    ea, eb = extents_of(a.type), extents_of(b.type)
    if len(ea) not in (2, 3) or len(ea) != len(eb):
        raise context.error(
            f"`dot` multiplies two tiles of 2 or 3 dimensions, not {shapes.text(ea)} by {shapes.text(eb)}; add one"
            " with `x[:, None]`, or write `ntl.sum(x * y)`"
        )
    message = f"`dot`: the inner sizes of {shapes.text(ea)} and {shapes.text(eb)} differ"
    shapes.agree(ea[-1], eb[-2], message, builder.require)
    dtype = dtypes.promote(numeric(a.type.dtype), numeric(b.type.dtype))
    if dtype == dtypes.int1:
        dtype = dtypes.float32
    elif dtype.is_integer and dtype != dtypes.int8:
        raise context.error(
            f"`dot` multiplies tiles of floating-point numbers, or of int8 into int32, not of {a.type.dtype} and"
            f" {b.type.dtype}; convert them, say with `.to(ntl.float32)`, which holds integers up to 2**24"
        )
    result = as_dtype(context, out_dtype) if out_dtype is not None else _accumulator(dtype)
    a, b = builder.cast(a, dtype), builder.cast(b, dtype)
    batch = shapes.broadcast(ea[:-2], eb[:-2], builder.require)
    type = tile_type(result, (*batch, ea[-2], eb[-1]))
    values: tuple[Value, ...] = (a, b)
    if acc is not None:
        acc = tile(context, acc)
        type = with_dtype(type, dtypes.promote(numeric(acc.type.dtype), numeric(result)))
        values += (builder.broadcast_to(builder.cast(acc, type.dtype), extents_of(type)),)
    precision = input_precision or ("tf32" if allow_tf32 else None)
    if dtype == dtypes.float32 and precision is None:
        precision = "ieee" if context.specialisation.dot_precision == "highest" else "tf32"
    return builder.apply("dot", values, type, input_precision=precision)


def _accumulator(dtype: DType) -> DType:
    if dtype.is_integer:
        return dtypes.int32
    return dtypes.float64 if dtype == dtypes.float64 else dtypes.float32


def where(context: TraceContext, condition: Any, x: Any, y: Any) -> Value:
    """Choose element by element between two operands."""
    builder = context.builder
    condition, x, y = truth(context, condition), operand(context, x), operand(context, y)
    dtype = builder.common_type(x, y)
    values = builder.broadcast(condition, builder.value(x, dtype), builder.value(y, dtype))
    return builder.apply("where", values, with_dtype(values[1].type, dtype))

"""Trace functions of the language to primitives. Shapes and conversions are decided here."""

from __future__ import annotations

from typing import Any

from ninetoothed import dtypes
from ninetoothed.dtypes import DType, PointerType
from ninetoothed.expr import as_expr, var
from ninetoothed.frontend import shapes
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.lanes import lane
from ninetoothed.frontend.numbers import numeric
from ninetoothed.frontend.operators import operand, truth
from ninetoothed.frontend.shapes import extents_of, tile_type
from ninetoothed.frontend.values import KnownCount, shown
from ninetoothed.ir import Value

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
        raise context.error(f"{shown(value)} is no dtype; use one such as `ntl.float32`")
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
    """Read one number of a shape; a tile's size keeps the expression over blocks that it comes from."""
    if isinstance(size, KnownCount):
        place = size.dimension
        return context.levels[place.parameter][place.level][place.dim]
    return known(context, size, "a shape")


def known(context: TraceContext, value: Any, what: str) -> Any:
    value = operand(context, value)
    if isinstance(value, Value):
        raise context.error(
            f"{what} must be known when compiling, not computed by the kernel; use numbers, sizes such as `x.shape[0]`,"
            " or a parameter `Tensor(0, constexpr=True)`"
        )
    return value


def axis_of(context: TraceContext, value: Value, axis: Any) -> int:
    """Read an axis of a tile, counted from the end where it is negative."""
    axis = known(context, axis, "an axis")
    rank = len(value.type.shape)
    if not isinstance(axis, int) or not -rank <= axis < rank:
        remedy = f"use {-rank} to {rank - 1}" if rank else "it is one number"
        shape = shapes.text(extents_of(value.type))
        raise context.error(f"axis {shown(axis)} is out of range for a tile of shape {shape}; {remedy}")
    return axis % rank


# -- creation and conversion -----------------------------------------------------------------------


def arange(context: TraceContext, start: Any, end: Any) -> Value:
    """Trace whole numbers from `start` to `end`, exclusive; one argument is the end."""
    start, end = known(context, start, "`arange`"), known(context, end, "`arange`")
    start, end = (0, start) if end is None else (start, end)
    for bound in (start, end):
        if isinstance(bound, float):
            raise context.error(f"`arange` counts whole numbers, and is given {bound}; divide with `//`")
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
                "; convert with `.to` first"
            )
        return context.builder.apply("bitcast", (input,), dtype)
    return context.builder.cast(context.builder.value(input), dtype)


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
    with shapes.remedied("transpose one with `ntl.trans`, or cut both inner dimensions into tiles of one size"):
        shapes.agree(ea[-1], eb[-2], message, builder.require)
    dtype = _factor(context, a, b)
    result = as_dtype(context, out_dtype) if out_dtype is not None else _accumulator(dtype)
    a, b = builder.cast(a, dtype), builder.cast(b, dtype)
    batch = shapes.broadcast(ea[:-2], eb[:-2], builder.require)
    shape = (*batch, ea[-2], eb[-1])
    values: tuple[Value, ...] = (a, b)
    if acc is not None:
        acc = tile(context, acc)
        result = dtypes.promote(numeric(acc.type.dtype), numeric(result))
        values += (builder.broadcast_to(builder.cast(acc, result), shape),)
    precision = input_precision or ("tf32" if allow_tf32 else None)
    if dtype == dtypes.float32 and precision is None:
        precision = "ieee" if context.specialisation.dot_precision == "highest" else "tf32"
    return builder.apply("dot", values, result, shape=shape, input_precision=precision)


def _factor(context: TraceContext, a: Value, b: Value) -> DType:
    """Return the type in which two tiles are multiplied; raise where a product has none."""
    dtype = dtypes.promote(numeric(a.type.dtype), numeric(b.type.dtype))
    if dtype == dtypes.int1:
        return dtypes.float32
    if dtype.is_integer and dtype != dtypes.int8:
        raise context.error(
            f"`dot` multiplies tiles of floating-point numbers, or of int8 into int32, not of {a.type.dtype} and"
            f" {b.type.dtype}; convert them, say with `.to(ntl.float32)`, which holds integers up to 2**24"
        )
    return dtype


def _accumulator(dtype: DType) -> DType:
    """Return the type in which products of a type are added up."""
    if dtype.is_integer:
        return dtypes.int32
    return dtypes.float64 if dtype == dtypes.float64 else dtypes.float32


def where(context: TraceContext, condition: Any, x: Any, y: Any) -> Value:
    """Choose element by element between two operands."""
    builder = context.builder
    condition, x, y = truth(context, condition), operand(context, x), operand(context, y)
    dtype = builder.common_type(x, y)
    values = builder.broadcast(condition, builder.value(x, dtype), builder.value(y, dtype))
    return builder.apply("where", values)

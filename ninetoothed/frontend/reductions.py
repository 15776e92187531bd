"""Trace reductions and scans. The pass `overhang` makes them leave out overhang."""

from __future__ import annotations

import math
from typing import Any

from ninetoothed import dtypes, ir
from ninetoothed.dtypes import DType
from ninetoothed.expr import Expr, const, is_nonnegative, simplify
from ninetoothed.frontend import shapes
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.functions import as_dtype, axis_of, known, tile, where
from ninetoothed.frontend.lanes import lane_numbers
from ninetoothed.frontend.numbers import numeric
from ninetoothed.frontend.operators import binary, extremum
from ninetoothed.frontend.shapes import extents_of
from ninetoothed.ir import TileType, Value


def reduction(
    context: TraceContext,
    input: Any,
    axis: Any = None,
    keep_dims: Any = False,
    dtype: Any = None,
    *,
    name: str,
    propagate_nan: bool | None = None,
) -> Any:
    """Trace sum, xor_sum, reduce_or, max or min; sums of halves run in float32, of small integers in int32."""
    builder = context.builder
    input = tile(context, input)
    if name in ("min", "max") and axis is None and not keep_dims and dtype is None:
        known = extremum_of_indices(context, name, input)
        if known is not None:
            return known
    if dtype is not None:
        input = builder.cast(input, as_dtype(context, dtype))
    input, own = _widened(context, input, name in ("sum", "xor_sum", "reduce_or"))
    axis = None if axis is None else axis_of(context, input, axis)
    if input.type.is_scalar:
        return input
    nan = propagate_nan if own.is_floating else None
    result = builder.apply(name, (input,), axis=axis, keep_dims=keep_dims, propagate_nan=nan)
    return builder.cast(result, own)


def _widened(context: TraceContext, value: Value, adds_up: bool) -> tuple[Value, DType]:
    """Convert to the type in which values are combined: no halves, no bools. Returns also the type of the result."""
    own = numeric(value.type.dtype)
    if adds_up and own.bits < 32 and not own.is_floating:
        own = dtypes.int32
    dtype = dtypes.float32 if own.is_half else dtypes.int32 if own == dtypes.int1 else own
    return context.builder.cast(value, dtype), own


def extremum_of_indices(context: TraceContext, name: str, input: Value) -> Expr | None:
    """Return the least or greatest of affine indices: the one at a corner of the tile.

    min(64 * program + lane)   ->   64 * program
    """
    producer = context.builder.producer(input)
    while isinstance(producer, ir.Apply) and producer.function == "expand_dims":
        (input,) = producer.operands
        producer = context.builder.producer(input)
    if not isinstance(producer, ir.Index) or not producer.lanes or producer.bindings:
        return None
    linear = producer.expr.linear([lane.name for lane in producer.lanes])
    if linear is None or not all(coefficient.is_constant for coefficient in linear[0].values()):
        return None
    corner = {}
    for lane in producer.lanes:
        rises = linear[0].get(lane.name, const(0)).constant > 0
        corner[lane.name] = input.type.shape[lane.axis] - 1 if rises == (name == "max") else const(0)
    return simplify(producer.expr.subs(corner), context.facts)


def extremum_along(
    context: TraceContext, input: Any, axis: Any, return_indices: Any, tie_break_left: Any, keep_dims: Any, *, name: str
) -> Any:
    """Trace `min` or `max`, with indices where they are wanted: then both are of the first NaN, if there is one."""
    if not return_indices:
        return reduction(context, input, axis, keep_dims, name=name)
    input = tile(context, input)
    own = input.type.dtype
    wide = context.builder.cast(input, dtypes.float32) if own.is_half or own == dtypes.int1 else input
    value = reduction(context, wide, axis, keep_dims, name=name, propagate_nan=True)
    place = arg_extremum(context, wide, axis, tie_break_left, keep_dims, name=f"arg{name}")
    return context.builder.cast(context.builder.value(value), own), place


def arg_extremum(
    context: TraceContext, input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False, *, name: str
) -> Value:
    """Trace `argmin` or `argmax`; of a number it is 0."""
    input = tile(context, input)
    if input.type.dtype.is_half or input.type.dtype == dtypes.int1:
        input = context.builder.cast(input, dtypes.float32)
    axis = None if axis is None else axis_of(context, input, axis)
    if input.type.is_scalar:
        return context.builder.constant(0, dtypes.int32)
    if axis is None and not all(extent.is_full for extent in extents_of(input.type)[1:]):
        place = context.builder.cast(
            _numbered(context, context.builder.apply(name, (input,)), input.type), dtypes.int32
        )
        return context.builder.broadcast_to(place, (shapes.ONE,) * (len(input.type.shape) if keep_dims else 0))
    return context.builder.apply(name, (input,), axis=axis, keep_dims=keep_dims)


def _numbered(context: TraceContext, lane: Value, type: TileType) -> Value:
    """Turn the number of a lane among all lanes into that of its element among all elements, both row by row.

    of (3, 5) elements in (4, 8) lanes:  11  ->  5 * (11 // 8) + 11 % 8
    """
    builder = context.builder
    rest = builder.expr_of(lane)
    (name,) = rest.variables
    builder.facts = builder.facts.bind(name, 0, math.prod(type.lanes) - 1)
    number, before = const(0), const(1)
    for extent in reversed(extents_of(type)):
        number, rest, before = number + rest % extent.lanes * before, rest // extent.lanes, before * extent.size
    return builder.index(number)


def scan(context: TraceContext, input: Any, axis: Any = 0, reverse: Any = False, *, name: str) -> Value:
    """Trace a scan; halves run in float32, small integers in int32."""
    builder = context.builder
    input, own = _widened(context, tile(context, input), True)
    axis = axis_of(context, input, axis)
    return builder.cast(builder.apply(name, (input,), axis=axis, reverse=bool(reverse)), own)


def mean(context: TraceContext, input: Any, axis: Any = None, keep_dims: Any = False) -> Value:
    """Divide the sum by how many elements there are; halves run in float32, and integers give it."""
    input = tile(context, input)
    result = _quotient(context, context.builder.to_float(input), input, axis, keep_dims, 0)
    return _as_float(context, result, input)


def var(context: TraceContext, input: Any, axis: Any = None, correction: Any = 1, keep_dims: Any = False) -> Value:
    """Divide the sum of the squares of what is centred, in two steps: no large numbers are subtracted."""
    input, correction = tile(context, input), known(context, correction, "`correction`")
    wide = context.builder.to_float(input)
    centred = binary(context, "sub", wide, _quotient(context, wide, input, axis, True, 0))
    result = _quotient(context, binary(context, "mul", centred, centred), input, axis, keep_dims, correction)
    return _as_float(context, result, input)


def _quotient(context: TraceContext, value: Value, input: Value, axis: Any, keep_dims: Any, correction: float) -> Value:
    """Divide the sum of a value by how many elements the input has along an axis, less a correction."""
    axis = None if axis is None else axis_of(context, input, axis)
    total = reduction(context, value, axis, keep_dims, name="sum")
    builder, count = context.builder, 1
    if not input.type.is_scalar:
        count = builder.apply("count", (value,), axis=axis, keep_dims=bool(keep_dims))
    if correction:
        count = extremum(context, "maximum", (binary(context, "sub", count, correction), 0))
    return binary(context, "truediv", total, count)


def _as_float(context: TraceContext, value: Value, input: Value) -> Value:
    return context.builder.cast(value, input.type.dtype) if input.type.dtype.is_floating else value


def softmax(context: TraceContext, x: Any, dim: Any = None, keep_dims: Any = False) -> Any:
    """Compute exp(x - max) / sum(exp(x - max)) along `dim`, the last by default."""
    x = context.builder.to_float(tile(context, x))
    axis = len(x.type.shape) - 1 if dim is None else axis_of(context, x, dim)
    shifted = binary(context, "sub", x, reduction(context, x, axis, True, name="max"))
    numerator = context.builder.floating("exp", shifted)
    return binary(context, "truediv", numerator, reduction(context, numerator, axis, True, name="sum"))


def select(context: TraceContext, value: Value, axis: int, index: Expr | Value) -> Value:
    """Return one element along an axis, or 0. All others are zeroed and the axis is summed, which is exact."""
    builder = context.builder
    extent = extents_of(value.type)[axis]
    if extent.is_one and isinstance(index, Expr) and simplify(index, context.facts) == 0:
        extents = extents_of(value.type)
        return builder.apply("reshape", (value,), shape=extents[:axis] + extents[axis + 1 :])
    value, own = _widened(context, value, False)
    chosen = builder.binary("eq", lane_numbers(context, value.type, axis), index)
    if not extent.is_full and not (isinstance(index, Expr) and is_nonnegative(extent.size - 1 - index, context.facts)):
        inside = builder.binary("lt", lane_numbers(context, value.type, axis), extent.size)
        chosen = builder.elementwise("and", chosen, inside)
    chosen = where(context, chosen, value, 0)
    return builder.cast(builder.apply("sum", (chosen,), axis=axis, keep_dims=False), own)

"""Trace sorts, the greatest elements and histograms. The pass `overhang` makes them leave out overhang."""

from __future__ import annotations

from typing import Any

from ninetoothed import dtypes
from ninetoothed.dtypes import DType
from ninetoothed.expr import const
from ninetoothed.frontend import shapes
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.functions import axis_of, known, tile, where
from ninetoothed.frontend.lanes import LaneBound, lane_numbers, mask
from ninetoothed.frontend.numbers import numeric
from ninetoothed.frontend.reductions import select
from ninetoothed.frontend.shape_functions import expand_dims, gather, reshape
from ninetoothed.frontend.shapes import extents_of, tile_type
from ninetoothed.ir import Value


def sort(
    context: TraceContext, x: Any, dim: Any = None, descending: Any = False, return_indices: Any = False
) -> Value | tuple[Value, Value]:
    """Sort along the last dimension; NaN is the greatest, as in PyTorch. A number stays what it is."""
    x = tile(context, x)
    last = len(x.type.shape) - 1
    if dim is not None and axis_of(context, x, dim) != last:
        raise context.error("`sort` works along the last dimension; permute the tile first")
    keys = _keys(context, x)
    descending = bool(known(context, descending, "`descending`"))
    if known(context, return_indices, "`return_indices`"):
        return _with_places(context, x, keys, descending)
    if x.type.is_scalar:
        return x
    return _of_keys(context, context.builder.apply("sort", (keys,), descending=descending), x.type.dtype)


def _with_places(context: TraceContext, x: Value, keys: Value, descending: bool) -> tuple[Value, Value]:
    """Sort by the digits of keys, each of 32 bits, the last first: a digit and a place are one integer of 64 bits.

    That such a sort keeps the order of what is equal makes the next digit's right.
    """
    if x.type.is_scalar:
        return x, context.builder.constant(0, dtypes.int32)
    last = len(x.type.shape) - 1
    first, *others = _digits(context, keys)
    places = _sorted_places(context, first, descending)
    for digit in others:
        order = _sorted_places(context, gather(context, digit, places, last), descending)
        places = gather(context, places, order, last)
    return gather(context, x, places, last), places


def _digits(context: TraceContext, keys: Value) -> tuple[Value, ...]:
    """Return numbers from -2**31 on, as int64, which tell the order of keys: of 64 bits two, the lower first."""
    binary = context.builder.binary
    dtype, half = numeric(keys.type.dtype), 1 << 31
    if dtype.bits < 64:
        wide = context.builder.cast(keys, dtypes.int64)
        return (binary("sub", wide, half) if dtype.category == "uint" else wide,)
    bits = context.builder.apply("bitcast", (keys,), dtypes.int64) if dtype != dtypes.int64 else keys
    upper = binary("rshift", bits, 32)
    if dtype.category == "uint":
        upper = binary("sub", binary("and", upper, (1 << 32) - 1), half)
    return binary("sub", binary("and", bits, (1 << 32) - 1), half), upper


def _sorted_places(context: TraceContext, digit: Value, descending: bool) -> Value:
    """Return where each element of a sorted tile was. Digit and place are joined; in either direction places rise."""
    builder = context.builder
    places = builder.cast(lane_numbers(context, digit.type, len(digit.type.shape) - 1), dtypes.int64)
    turn = (1 << 31) - 1
    own = builder.binary("sub", turn, places) if descending else places
    joined = builder.binary("add", builder.binary("mul", digit, 1 << 32), own)
    found = builder.binary("and", builder.apply("sort", (joined,), descending=descending), turn)
    return builder.cast(builder.binary("sub", turn, found) if descending else found, dtypes.int32)


def _keys(context: TraceContext, x: Value) -> Value:
    """Map floats to integers in the same order: in negative floats, all bits but the sign are flipped.

    NaN is the greatest, whatever its sign.
    """
    builder = context.builder
    if not x.type.dtype.is_floating:
        return x
    x = builder.to_float(x)
    x = where(context, builder.binary("eq", x, x), x, float("nan"))
    return _turned(context, builder.apply("bitcast", (x,), _BITS[numeric(x.type.dtype)]))


def _of_keys(context: TraceContext, keys: Value, dtype: DType) -> Value:
    if not dtype.is_floating:
        return keys
    computed = dtypes.float64 if keys.type.dtype == dtypes.int64 else dtypes.float32
    floats = context.builder.apply("bitcast", (_turned(context, keys),), computed)
    return context.builder.cast(floats, dtype)


_BITS = {dtypes.float32: dtypes.int32, dtypes.float64: dtypes.int64}


def _turned(context: TraceContext, bits: Value) -> Value:
    turned = context.builder.binary("xor", bits, numeric(bits.type.dtype).range[1])
    return where(context, context.builder.binary("lt", bits, 0), turned, bits)


def topk(
    context: TraceContext, x: Any, k: Any, dim: Any = None, return_indices: Any = False
) -> Value | tuple[Value, Value]:
    """Return the largest along the last dimension, largest first: the head of a descending sort."""
    found = sort(context, x, dim, True, return_indices)
    k = known(context, k, "`k`")
    if isinstance(found, tuple):
        values, places = found
        return _head(context, values, k), _head(context, places, k)
    return _head(context, found, k)


def _head(context: TraceContext, found: Value, k: Any) -> Value:
    """Return the first `k` elements along the last dimension; a number is the only one of itself."""
    if found.type.is_scalar:
        found = expand_dims(context, found, 0)
    *leading, last = extents_of(found.type)
    if not last.size.is_constant:
        raise context.error(
            f"`topk` needs a last dimension of known size, not {last.size}; cut it into tiles, or where it is the whole"
            ' of a dimension, declare its size: `Tensor(..., shape_options={"constexpr": True})`'
        )
    if not isinstance(k, int) or not 1 <= k <= last.size.constant:
        raise context.error(f"`topk` takes the `k` largest of {last.size}, and `k` is {k}; use 1 to {last.size}")
    head = shapes.extent(const(k), context.facts)
    if all(e.is_full for e in (*leading, last, head)):
        grouped = reshape(context, found, (*(e.size for e in leading), last.lanes // k, k))
        return select(context, grouped, len(leading), const(0))
    index = lane_numbers(context, tile_type(dtypes.int32, (*leading, head)), len(leading))
    places = context.builder.broadcast_to(index, (*leading, head))
    return context.builder.apply("gather", (found, places), axis=len(leading))


def histogram(context: TraceContext, input: Any, num_bins: Any) -> Value:
    """Trace a histogram of integers, which counts those that have a bin."""
    builder, input = context.builder, tile(context, input)
    extent = shapes.extent(known(context, num_bins, "`num_bins`"), context.facts)
    # Of floats there are none: they are refused.
    inside = () if input.type.dtype.is_floating else (mask(context, [LaneBound(input, extent.size, lower=True)]),)
    return builder.apply("histogram", (input, *inside), dtypes.int32, shape=(extent,), num_bins=extent.lanes)

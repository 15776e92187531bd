"""Draw random numbers by counters, as Triton defines them: four integers for each seed and offset."""

from __future__ import annotations

from typing import Any

from ninetoothed import dtypes
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.functions import cast, tile, where
from ninetoothed.frontend.operators import binary, operand
from ninetoothed.frontend.values import shown
from ninetoothed.ir import Value


def random(context: TraceContext, seed: Any, offset: Any, n_rounds: int = 10, *, name: str) -> Any:
    """Trace a primitive of random numbers."""
    builder = context.builder
    seed, offset = builder.value(operand(context, seed)), tile(context, offset)
    drawn = builder.apply(name, (seed, offset), n_rounds=n_rounds)
    if name == "randint4x":
        return tuple(cast(context, each, dtypes.int32, bitcast=True) for each in drawn)
    return cast(context, drawn, dtypes.int32, bitcast=True) if name == "randint" else drawn


def philox(
    context: TraceContext, seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: int = 10
) -> tuple[Value, ...]:
    """Trace four integers without sign of a seed and four counters, all as wide as the first."""
    first = tile(context, c0).type.dtype
    if not first.is_integer or first.bits < 32:
        raise context.error(f"`philox` takes counters of 32 or 64 bits, not {first}; convert it with `.to(ntl.uint32)`")
    dtype = dtypes.uint32 if first.bits == 32 else dtypes.uint64
    low = _key(context, "philox", seed, dtypes.uint64)
    if first.bits == 64:
        high = context.builder.constant(0, dtype)
    else:
        high, low = (cast(context, half, dtype) for half in (binary(context, "rshift", low, 32), low))
    a, b, c, d = (_integer(context, each, dtype) for each in (c0, c1, c2, c3))
    return philox_impl(context, a, b, c, d, low, high, n_rounds)


def philox_impl(
    context: TraceContext, c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, n_rounds: int = 10
) -> tuple[Value, ...]:
    """Trace Philox as it is published: four counters, mixed by two keys."""
    builder = context.builder
    dtype = tile(context, c0).type.dtype
    if dtype not in (dtypes.uint32, dtypes.uint64):
        raise context.error(f"`philox_impl` takes uint32 or uint64, not {dtype}; convert it with `.to(ntl.uint32)`")
    counters = (_integer(context, each, dtype) for each in (c0, c1, c2, c3))
    keys = (_key(context, "philox_impl", each, dtype) for each in (k0, k1))
    return builder.apply("philox_impl", (*keys, *builder.broadcast(*counters)), n_rounds=n_rounds)


def _key(context: TraceContext, name: str, key: Any, dtype: dtypes.DType) -> Value:
    """Read a seed or a key: a number."""
    key = operand(context, key)
    type = tile(context, 0 if isinstance(key, int) else key).type
    if not type.is_scalar or not type.dtype.is_integer:
        raise context.error(f"`{name}` takes a whole number as a seed or key, not {shown(key)}; give it one for all")
    return _integer(context, key, dtype)


def _integer(context: TraceContext, value: Any, dtype: dtypes.DType) -> Value:
    """Convert to integers without sign; a number that is known may be any."""
    value = operand(context, value)
    return context.builder.value(value % 2**dtype.bits if isinstance(value, int) else value, dtype)


def rand4x(context: TraceContext, seed: Any, offsets: Any, n_rounds: int = 10) -> tuple[Value, ...]:
    """Trace four uniform numbers for each offset."""
    integers = random(context, seed, offsets, n_rounds, name="randint4x")
    return tuple(uint_to_uniform_float(context, each) for each in integers)


def randn4x(context: TraceContext, seed: Any, offset: Any, n_rounds: int = 10) -> tuple[Value, ...]:
    """Trace four normal numbers for each offset."""
    a, b, c, d = rand4x(context, seed, offset, n_rounds)
    return (*pair_uniform_to_normal(context, a, b), *pair_uniform_to_normal(context, c, d))


def uint_to_uniform_float(context: TraceContext, x: Any) -> Value:
    """Return the bits of an integer as float32 in [0, 1)."""
    x = tile(context, x)
    if not x.type.dtype.is_integer or x.type.dtype.bits < 32:
        raise context.error(f"`uint_to_uniform_float` takes integers of 32 or 64 bits, not {x.type.dtype}")
    bits = x.type.dtype.bits
    x = cast(context, x, dtypes.int32 if bits == 32 else dtypes.int64, bitcast=True)
    # Both signs of a number, -1 for 0, count alike; the largest is still below 1 when it is rounded.
    x = where(context, binary(context, "lt", x, 0), binary(context, "sub", -1, x), x)
    scale = 4.6566127342e-10 if bits == 32 else 1.0842020432385337e-19
    return binary(context, "mul", cast(context, x, dtypes.float32), scale)


def pair_uniform_to_normal(context: TraceContext, u1: Any, u2: Any) -> tuple[Value, ...]:
    """Make two independent normal numbers of two uniform ones, by Box-Muller."""
    builder = context.builder
    u1, u2 = tile(context, u1), tile(context, u2)
    logarithm = builder.floating("log", builder.elementwise("maximum", u1, 1.0e-7, propagate_nan=None))
    radius = builder.floating("sqrt", binary(context, "mul", logarithm, -2.0))
    angle = binary(context, "mul", u2, 6.283185307179586)
    return tuple(binary(context, "mul", radius, builder.floating(name, angle)) for name in ("cos", "sin"))

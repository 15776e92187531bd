"""Draw random numbers by counters, as Triton defines them: four integers for each seed and offset."""

from __future__ import annotations

from typing import Any

from ninetoothed import dtypes
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.functions import cast, tile, where
from ninetoothed.frontend.operators import binary, operand
from ninetoothed.ir import Value


def random(context: TraceContext, seed: Any, offset: Any, n_rounds: int = 10, *, name: str) -> Any:
    """Trace a primitive of random numbers."""
    builder = context.builder
    seed, offset = builder.value(operand(context, seed)), tile(context, offset)
    drawn = builder.apply(name, (seed, offset), n_rounds=n_rounds)
    if name == "randint4x":
        return tuple(cast(context, each, dtypes.int32, bitcast=True) for each in drawn)
    return cast(context, drawn, dtypes.int32, bitcast=True) if name == "randint" else drawn


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

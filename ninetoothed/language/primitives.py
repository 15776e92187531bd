"""The primitives: functions of `ir.Apply` to which the frontend reduces `FUNCTIONS`, and which backends have each.

Primitives are strictly typed: their operands have been cast and broadcast. Elementwise ones take operands of one shape.
"""

from __future__ import annotations

from dataclasses import dataclass

BOTH = frozenset({"triton", "torch"})
TRITON_ONLY = frozenset({"triton"})


@dataclass(frozen=True)
class Primitive:
    """A function of `ir.Apply`: its operands, its attributes, and the backends that have it."""

    name: str
    operands: str
    attributes: tuple[str, ...] = ()
    backends: frozenset[str] = BOTH


def _rows(names: str, operands: str, attributes: tuple[str, ...] = (), backends=BOTH):
    return {name: Primitive(name, operands, attributes, backends) for name in names.split()}


PRIMITIVES: dict[str, Primitive] = {
    # Elementwise; functions of floats have float32 or float64 operands, the result has their type.
    **_rows("exp exp2 log log2 sqrt sqrt_rn rsqrt sin cos tanh erf sigmoid floor ceil", "input: float"),
    **_rows("neg abs", "input"),
    **_rows("invert", "input: integer or int1"),
    **_rows("add sub mul", "lhs, rhs"),  # `add` also: a pointer and an integer.
    **_rows("truediv div_rn pow", "lhs: float, rhs: float"),
    # Floor semantics, as in Python; `nonnegative` tells that both operands are known not to be negative.
    **_rows("floordiv mod", "lhs, rhs", ("nonnegative",)),
    **_rows("maximum minimum", "lhs, rhs", ("propagate_nan",)),
    **_rows("and or xor", "lhs: integer or int1, rhs"),
    **_rows("lshift rshift umulhi", "lhs: integer, rhs: integer"),
    **_rows("eq ne lt le gt ge", "lhs, rhs -> int1"),
    **_rows("where", "condition: int1, then, otherwise"),
    **_rows("fma", "x: float, y: float, z: float"),
    **_rows("cast", "input -> result type"),  # Floats to integers truncate towards zero; to int1: != 0.
    **_rows("bitcast", "input -> result type of the same width"),
    **_rows("libdevice", "input, ...", ("name",)),
    # To a variable that held `old`; the pass `overhang` takes it away.
    **_rows("assign", "old, value -> value", (), frozenset()),
    # Shapes; the result's type says which. Lanes of `reshape` are row-major.
    **_rows("full", "scalar -> tile"),
    **_rows("broadcast", "input of the same rank -> tile"),
    **_rows("expand_dims", "input", ("axis",)),
    **_rows("reshape", "input -> tile"),
    **_rows("permute", "input", ("dims",)),
    **_rows("join", "lhs, rhs -> tile with a last axis of 2"),
    **_rows("split", "tile with a last axis of 2 -> two tiles"),
    **_rows("cat", "lhs: one axis, rhs: one axis"),
    **_rows("flip", "input", ("axis",)),
    **_rows("gather", "source, index", ("axis",)),
    # Reductions over `axis` (all axes where None); `keep_dims` keeps axes of one element.
    **_rows("sum max min xor_sum argmax argmin", "input", ("axis", "keep_dims")),
    **_rows("reduce", "input, ... -> as many results", ("axis", "keep_dims", "combine")),
    **_rows("cumsum cumprod", "input", ("axis", "reverse")),
    **_rows("associative_scan", "input, ... -> as many results", ("axis", "reverse", "combine")),
    **_rows("sort", "input, along the last axis", ("descending",)),
    **_rows("histogram", "input: integer, one axis", ("num_bins",)),
    # lhs (..., M, K), rhs (..., K, N), then perhaps an accumulator (..., M, N) of the result's type.
    **_rows("dot", "lhs, rhs, [accumulator]", ("input_precision",)),
    **_rows("dot_scaled", "lhs, lhs_scale, rhs, rhs_scale, [accumulator]", ("formats",), TRITON_ONLY),
    # Memory behind pointers, for gathers, scatters and atomics.
    **_rows("data_ptr", "-> pointer to the first element", ("parameter",)),
    **_rows("load_pointer", "pointer, [mask, [other]]"),
    **_rows("store_pointer", "pointer, value, [mask]"),
    **_rows(
        "atomic_add atomic_max atomic_min atomic_and atomic_or atomic_xor atomic_xchg",
        "pointer, value, [mask] -> old",
        ("sem", "scope"),
    ),
    **_rows("atomic_cas", "pointer, expected, value -> old", ("sem", "scope")),
    **_rows("rand randn randint", "seed: scalar, offset: integer", ("n_rounds",)),
    **_rows("randint4x", "seed: scalar, offset: integer -> four results", ("n_rounds",)),
    **_rows("device_assert", "condition: int1", ("message",)),
    **_rows("debug_barrier", ""),
    **_rows("inline_asm_elementwise", "input, ...", ("asm", "constraints", "is_pure", "pack"), TRITON_ONLY),
}


# Each lane of the result comes from the same lane of every operand.
ELEMENTWISE = frozenset(
    "exp exp2 log log2 sqrt sqrt_rn rsqrt sin cos tanh erf sigmoid floor ceil neg abs invert add sub mul truediv div_rn"
    " pow floordiv mod maximum minimum and or xor lshift rshift umulhi eq ne lt le gt ge where fma cast bitcast"
    " libdevice assign load_pointer rand randn randint randint4x inline_asm_elementwise".split()
)

"""The primitives: functions of `ir.Apply` to which the frontend reduces `FUNCTIONS`, one row each.

All that is true of a primitive stands in its row: `verify`, the frontend, the passes and the backends ask it, and keep
no tables of names. Primitives are strictly typed: their operands have been cast and broadcast.
"""

from __future__ import annotations

import math
import operator
from functools import partial
from typing import Any

from ninetoothed.dtypes import float64
from ninetoothed.language import axis_rules
from ninetoothed.language.primitive import Effect, Gap, Number, Primitive, Sign
from ninetoothed.language.signature import AttributeNames, Signature

_TRITON_ONLY = frozenset({"triton"})


def _rows(names: str, signature: str, doc: str, attributes: str = "", **facts: Any) -> dict[str, Primitive]:
    """Make rows of primitives that differ in their names, and in `{name}` in their docstrings, alone."""
    signatures = tuple(Signature.parse(each.strip()) for each in signature.split(" or "))
    known = AttributeNames.parse(attributes)
    return {name: Primitive(name, signatures, known, doc.replace("{name}", name), **facts) for name in names.split()}


_FLOAT = "x: float32|float64 T -> T"
_FLOATS = "x: float32|float64 T, y: T -> T"
_NUMBERS = "x: number T, y: T -> T"
_DIVIDED = "x: integer|float32|float64 T, y: T -> T"
_BITS = "x: integer|int1 T, y: T -> T"
_COMPARED = "x: number T, y: T -> int1"
_POINTERS = "pointers: pointer P"
_ANY_FLOAT = "float16|bfloat16|float32|float64"


def _logarithm(x: Number, base: float = math.e) -> float:
    return math.log(x, base) if x else -math.inf


def _sigmoid(x: Number) -> float:
    return 1 / (1 + math.exp(-x)) if x != -math.inf else 0.0


def _inverted(x: Number) -> Number:
    return not x if isinstance(x, bool) else operator.invert(int(x))


_ELEMENTWISE: dict[str, Primitive] = {
    **_rows("exp", _FLOAT, "Raise e to the power of x.", fold=math.exp),
    **_rows("exp2", _FLOAT, "Raise 2 to the power of x.", fold=partial(math.pow, 2)),
    **_rows("log", _FLOAT, "Compute the natural logarithm.", fold=_logarithm),
    **_rows("log2", _FLOAT, "Compute the logarithm to the base of 2.", fold=partial(_logarithm, base=2)),
    **_rows("sqrt", _FLOAT, "Compute the square root.", fold=math.sqrt),
    **_rows("sqrt_rn", _FLOAT, "Compute the square root, rounded to the nearest float."),
    **_rows("rsqrt", _FLOAT, "Compute 1 / sqrt(x)."),
    **_rows("sin cos", _FLOAT, "Compute the {name} of an angle."),
    **_rows("tanh", _FLOAT, "Compute the hyperbolic tangent.", fold=math.tanh),
    **_rows("erf", _FLOAT, "Compute the error function.", fold=math.erf),
    **_rows("sigmoid", _FLOAT, "Compute 1 / (1 + exp(-x)).", fold=_sigmoid),
    **_rows("floor ceil", _FLOAT, "Round to a whole number: `{name}`."),
    **_rows("neg", "x: number T -> T", "Negate; integers wrap.", fold=operator.neg),
    **_rows("abs", "x: number T -> T", "Take away the sign; integers wrap.", fold=abs),
    **_rows("invert", "x: integer|int1 T -> T", "Turn every bit.", fold=_inverted),
    **_rows("add", f"{_NUMBERS} or x: pointer P, y: integer -> P", "Add; move a pointer by elements.",
            identity=0, is_commutative=True, sign=Sign.GROWING, fold=operator.add),
    **_rows("sub", _NUMBERS, "Subtract.", identity=0, fold=operator.sub),
    **_rows("mul", _NUMBERS, "Multiply.", identity=1, is_commutative=True, sign=Sign.GROWING, fold=operator.mul),
    **_rows("truediv", _FLOATS, "Divide.", identity=1, fold=operator.truediv),
    **_rows("div_rn", _FLOATS, "Divide, and round to the nearest float."),
    **_rows("pow", f"{_FLOATS} or x: integer T, y: T -> T",
            "Raise x to the power of y; integers wrap, and 1 / x is rounded to 0."),
    **_rows("floordiv", _DIVIDED, "Divide and round down, as Python does; `nonnegative`: no operand is negative.",
            "nonnegative?", sign=Sign.KEPT),
    **_rows("mod", _DIVIDED, "Give what `floordiv` leaves, of the sign of y.", "nonnegative?", sign=Sign.KEPT),
    **_rows("maximum", _NUMBERS, "Take the greater; the number where one is NaN, unless `propagate_nan`.",
            "propagate_nan?", identity="least", is_commutative=True, sign=Sign.KEPT, fold=max),
    **_rows("minimum", _NUMBERS, "Take the smaller; the number where one is NaN, unless `propagate_nan`.",
            "propagate_nan?", identity="greatest", is_commutative=True, sign=Sign.KEPT, fold=min),
    **_rows("and", _BITS, "Combine bits: both are set.", identity=True, is_commutative=True),
    **_rows("or", _BITS, "Combine bits: one is set.", identity=0, is_commutative=True),
    **_rows("xor", _BITS, "Combine bits: just one is set.", identity=0, is_commutative=True),
    **_rows("lshift rshift", "x: integer T, y: T -> T", "Shift the bits of x by y; `rshift` keeps a sign."),
    **_rows("umulhi", "x: integer32 T, y: T -> T", "Multiply without sign; keep the upper half of the bits."),
    **_rows("eq", _COMPARED, "Compare: x == y.", is_commutative=True, fold=operator.eq),
    **_rows("ne", _COMPARED, "Compare: x != y.", is_commutative=True, fold=operator.ne),
    **_rows("lt", _COMPARED, "Compare: x < y.", fold=operator.lt),
    **_rows("le", _COMPARED, "Compare: x <= y.", fold=operator.le),
    **_rows("gt", _COMPARED, "Compare: x > y.", fold=operator.gt),
    **_rows("ge", _COMPARED, "Compare: x >= y.", fold=operator.ge),
    **_rows("where", "condition: int1, then: any T, otherwise: T -> T", "Choose lane by lane."),
    **_rows("fma", "x: float32|float64 T, y: T, z: T -> T", "Compute x * y + z."),
    **_rows("cast", "x: any -> any", "Convert; floats to integers truncate, to int1: whether not 0.",
            sign=Sign.CONVERTED),
    **_rows("bitcast", "x: any T -> ~T", "Take the bits of each element for another type."),
    # The row of the function, in `LIBDEVICE`, says more of its types.
    **_rows("libdevice", "x: integer32|float32|float64, more: integer32|float32|float64... -> any",
            "Compute a function of CUDA's library.", "name"),
    **_rows("fast_cosf fast_exp10f fast_expf fast_log10f fast_log2f fast_logf fast_sinf fast_tanf fast_tanhf",
            "x: float32 -> float32", "Approximate what its name says."),
    **_rows("fast_dividef fast_powf", "x: float32, y: float32 -> float32", "Approximate what its name says."),
    **_rows("assign", "old: any, value: any T -> T", "Give `value` to a variable that held `old`.",
            axes="old..., ... -> ...", sign=Sign.KEPT, backends=frozenset()),
    **_rows("passed", "value: any T -> T", "Read the tile that was stored to `access`, of a tensor in no memory.",
            "access", backends=frozenset()),
    **_rows("rand randn", "seed: scalar integer, offset: integer -> float32",
            "Draw a number by counters: uniform in [0, 1), or normal (`randn`).", "n_rounds?", axes=", ... -> ..."),
    **_rows("randint", "seed: scalar integer, offset: integer -> uint32", "Draw 32 bits by counters.",
            "n_rounds?", axes=", ... -> ..."),
    **_rows("randint4x", "seed: scalar integer, offset: integer -> uint32, uint32, uint32, uint32",
            "Draw four times 32 bits by counters.", "n_rounds?", axes=", ... -> ..."),
    **_rows("philox_impl", "k0: scalar uint32|uint64 T, k1: scalar T, c0: T, c1: T, c2: T, c3: T -> T, T, T, T",
            "Mix four counters by two keys, as Philox does.", "n_rounds?", axes=", , ... -> ..."),
    **_rows("inline_asm_elementwise", "inputs: any... -> any...", "Run instructions given as text.",
            "asm constraints is_pure pack", effect=Effect.DECLARED, backends=_TRITON_ONLY),
}  # fmt: skip

_SHAPES: dict[str, Primitive] = {
    **_rows("full", "x: scalar any T -> T", "Make a tile of one number.", axes="-> ...", sign=Sign.KEPT),
    **_rows("broadcast", "x: any T -> T", "Repeat along axes of one element; the rank stays.",
            axes="...? -> ...", sign=Sign.KEPT),
    **_rows("expand_dims", "x: any T -> T", "Insert an axis of one element.", "axis",
            axes=axis_rules.expand_dims, sign=Sign.KEPT),
    **_rows("reshape", "x: any T -> T", "Take the lanes, row-major, for another shape.",
            axes=axis_rules.reshape, moves=axis_rules.reshaped, sign=Sign.KEPT),
    **_rows("permute", "x: any T -> T", "Reorder the axes.", "dims", axes=axis_rules.permute, sign=Sign.KEPT),
    **_rows("flip", "x: any T -> T", "Reverse an axis.", "axis", axes=axis_rules.along, moves=axis_rules.flipped),
    **_rows("join", "x: any T, y: T -> T", "Put two tiles side by side, along a new last axis of two.",
            axes="..., ... -> ... [2]"),
    **_rows("split", "x: any T -> T, T", "Take apart a last axis of two.", axes="... [2] -> ..., ..."),
    **_rows("cat", "x: any T, y: T -> T", "Put one tile behind another.", axes=axis_rules.cat),
    **_rows("gather", "source: any T, index: integer -> T", "Take elements of a tile along an axis.",
            "axis", axes=axis_rules.gather),
}  # fmt: skip

# Along `axis`, or all axes without one; `keep_dims` keeps axes of one element.
_ALONG = "axis? keep_dims?"
_REDUCTIONS: dict[str, Primitive] = {
    **_rows("sum", "x: number T -> T", "Add up.", _ALONG, axes=axis_rules.reduction, identity=0, sign=Sign.GROWING),
    **_rows("xor_sum", "x: integer T -> T", "Combine by `xor`.", _ALONG, axes=axis_rules.reduction, identity=0),
    **_rows("reduce_or", "x: integer T -> T", "Combine by `or`.", _ALONG, axes=axis_rules.reduction, identity=0),
    **_rows("max", "x: number T -> T", "Take the greatest; NaN if all are, or, to `propagate_nan`, one is.",
            f"{_ALONG} propagate_nan?", axes=axis_rules.reduction, identity="least", sign=Sign.KEPT),
    **_rows("min", "x: number T -> T", "Take the smallest; NaN if all are, or, to `propagate_nan`, one is.",
            f"{_ALONG} propagate_nan?", axes=axis_rules.reduction, identity="greatest", sign=Sign.KEPT),
    **_rows("argmax", "x: number -> int32", "Find the first of the greatest.", _ALONG,
            axes=axis_rules.reduction, identity="least"),
    **_rows("argmin", "x: number -> int32", "Find the first of the smallest.", _ALONG,
            axes=axis_rules.reduction, identity="greatest"),
    **_rows("count", "x: number -> int32", "Count the elements.", _ALONG, axes=axis_rules.reduction, identity=0,
            backends=frozenset()),
    **_rows("reduce", "x: number... -> number...", "Combine tiles, element by element, by a function.",
            f"{_ALONG} combine", axes=axis_rules.reduction),
    **_rows("cumsum", "x: number T -> T", "Add up what comes before, too.", "axis reverse?",
            axes=axis_rules.along, identity=0),
    **_rows("cumprod", "x: number T -> T", "Multiply by what comes before.", "axis reverse?",
            axes=axis_rules.along, identity=1),
    **_rows("associative_scan", "x: number... -> number...", "Combine with what comes before, by a function.",
            "axis reverse? combine", axes=axis_rules.along),
    **_rows("sort", "x: number T -> T", "Sort along the last axis.", "descending?", axes="... [n] -> ... [n]"),
    **_rows("histogram", "x: integer|int1, mask: int1? -> int32",
            "Count 0, 1, ... below `num_bins`, where the mask is set; no other number may be there.", "num_bins",
            axes=axis_rules.histogram),
}  # fmt: skip

_FACTORS = f"x: int8|float8|{_ANY_FLOAT} T, y: T"
_PRODUCTS: dict[str, Primitive] = {
    **_rows("dot", f"{_FACTORS} -> number or {_FACTORS}, accumulator: number A -> A",
            "Multiply matrices, and add an accumulator.", "input_precision?",
            axes="...? m [k], ...? [k] n, ... m n -> ... m n",
            # Triton before 3.8 sends them to tensor cores that take none.
            gaps=(Gap((float64,), range(100, 110), "multiply in float32, or call the kernel with CPU tensors"),)),
    **_rows("dot_scaled", "x: number, x_scale: number, y: number, y_scale: number, accumulator: number? -> number",
            "Multiply matrices whose elements share scales in blocks.", "formats",
            axes="m [k], m [s], [p] n, n [t], m n -> m n", backends=_TRITON_ONLY),
}  # fmt: skip

_ATOMIC = "sem? scope?"
_UPDATE = f"{_POINTERS}, value: {{}} *P, mask: int1? -> *P"
_UPDATED = "Update where pointers point, and give what was there."
_MEMORY: dict[str, Primitive] = {
    **_rows("data_ptr", "-> scalar pointer", "Give the address of a parameter's first element.", "parameter"),
    **_rows("load_pointer", f"{_POINTERS}, mask: int1?, other: *P? -> *P",
            "Read where pointers point; `other` where the mask is not set.", effect=Effect.READS),
    **_rows("store_pointer", f"{_POINTERS}, value: *P, mask: int1? ->", "Write where pointers point.",
            effect=Effect.WRITES),
    **_rows("atomic_add", _UPDATE.format(f"integer32|{_ANY_FLOAT}"), _UPDATED, _ATOMIC, effect=Effect.UPDATES),
    **_rows("atomic_max atomic_min atomic_xchg", _UPDATE.format("integer32|float32|float64"), _UPDATED, _ATOMIC,
            effect=Effect.UPDATES),
    **_rows("atomic_and atomic_or atomic_xor", _UPDATE.format("integer32"), _UPDATED, _ATOMIC, effect=Effect.UPDATES),
    **_rows("atomic_cas", f"{_POINTERS}, expected: int16|uint16|integer32|{_ANY_FLOAT} *P, value: *P -> *P",
            "Write where the expected value is found, and give what was there.", _ATOMIC, effect=Effect.UPDATES),
    **_rows("device_assert", "condition: int1 ->", "Stop where the condition does not hold.", "message? indices?",
            effect=Effect.CHECKS),
    **_rows("debug_barrier", "->", "Let the threads of a program wait for each other.", effect=Effect.ORDERS),
}  # fmt: skip

PRIMITIVES: dict[str, Primitive] = {**_ELEMENTWISE, **_SHAPES, **_REDUCTIONS, **_PRODUCTS, **_MEMORY}

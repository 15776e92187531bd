"""What `ninetoothed.language` offers: one row an operation, no backend's text.

Two tables. `FUNCTIONS` holds the names that an application may call, with their signatures (those of `triton.language`,
which they follow). `PRIMITIVES` holds the functions of `ir.Apply` to which the frontend reduces them, and which
backends have each. A name of `triton.language` that is in neither is a named error where it is used.

Primitives are strictly typed: their operands have been cast and broadcast. Elementwise ones take operands of one shape.
"""

from __future__ import annotations

import ast
import difflib
import enum
from dataclasses import dataclass, field

from ninetoothed import dtypes
from ninetoothed.errors import ApplicationError

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


@dataclass(frozen=True)
class Function:
    """A name that applications call. Outside an application it has no meaning: calling it says so."""

    name: str
    parameters: tuple[str, ...]
    defaults: dict = field(default_factory=dict, compare=False)
    variadic: bool = False
    module: str = "ninetoothed.language"

    def __call__(self, *args, **kwargs):
        raise ApplicationError(
            f"`{self.module}.{self.name}` works on tiles: call it inside an application, not in ordinary Python"
        )

    def __repr__(self) -> str:
        return f"{self.module}.{self.name}"


_SIGNATURES = """
abs(x) exp(x) exp2(x) log(x) log2(x) sqrt(x) sqrt_rn(x) rsqrt(x) sin(x) cos(x) tanh(x) erf(x) sigmoid(x) floor(x)
ceil(x) arange(start, end=None) full(shape, value, dtype) zeros(shape, dtype=float32) zeros_like(input)
cast(input, dtype, fp_downcast_rounding=None, bitcast=False)
broadcast(input, other) broadcast_to(input, *shape) expand_dims(input, axis)
squeeze(x, dim) unsqueeze(x, dim) to_tensor(x) reshape(input, *shape) view(input, *shape)
permute(input, *dims) trans(input, *dims) ravel(x) join(a, b) split(a) interleave(a, b)
cat(input, other, can_reorder=False) flip(x, dim=None) gather(src, index, axis) swizzle2d(i, j, size_i, size_j, size_g)
dot(input, other, acc=None, input_precision=None, allow_tf32=None, max_num_imprecise_acc=None, out_dtype=None)
dot_scaled(lhs, lhs_scale, lhs_format, rhs, rhs_scale, rhs_format, acc=None, out_dtype=float32)
where(condition, x, y) maximum(x, y, propagate_nan=None)
minimum(x, y, propagate_nan=None)
clamp(x, min, max, propagate_nan=None) fma(x, y, z) fdiv(x, y, ieee_rounding=False) div_rn(x, y) umulhi(x, y)
add(x, y, sanitize_overflow=True) sub(x, y, sanitize_overflow=True) mul(x, y, sanitize_overflow=True)
cdiv(x, div) softmax(x, dim=None, keep_dims=False)
sum(input, axis=None, keep_dims=False, dtype=None) xor_sum(input, axis=None, keep_dims=False)
max(input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False)
min(input, axis=None, return_indices=False, return_indices_tie_break_left=True, keep_dims=False)
argmax(input, axis, tie_break_left=True, keep_dims=False) argmin(input, axis, tie_break_left=True, keep_dims=False)
reduce(input, axis, combine_fn, keep_dims=False) associative_scan(input, axis, combine_fn, reverse=False)
cumsum(input, axis=0, reverse=False) cumprod(input, axis=0, reverse=False) sort(x, dim=None, descending=False)
topk(x, k, dim=None) histogram(input, num_bins)
load(pointer, mask=None, other=None) store(pointer, value, mask=None)
atomic_add(pointer, val, mask=None, sem=None, scope=None) atomic_max(pointer, val, mask=None, sem=None, scope=None)
atomic_min(pointer, val, mask=None, sem=None, scope=None) atomic_and(pointer, val, mask=None, sem=None, scope=None)
atomic_or(pointer, val, mask=None, sem=None, scope=None) atomic_xor(pointer, val, mask=None, sem=None, scope=None)
atomic_xchg(pointer, val, mask=None, sem=None, scope=None) atomic_cas(pointer, cmp, val, sem=None, scope=None)
rand(seed, offset, n_rounds=10) randn(seed, offset, n_rounds=10) randint(seed, offset, n_rounds=10)
randint4x(seed, offset, n_rounds=10) rand4x(seed, offsets, n_rounds=10) randn4x(seed, offset, n_rounds=10)
uint_to_uniform_float(x) pair_uniform_to_normal(u1, u2)
range(start, end=None, step=None, num_stages=None, loop_unroll_factor=None, disallow_acc_multi_buffer=False,
flatten=False, warp_specialize=False)
static_range(start, end=None, step=None) program_id(axis) num_programs(axis)
static_print(*values) static_assert(cond, msg="") device_print(prefix, *args) device_assert(cond, msg="")
assume(cond) condition(arg1, disable_licm=False)
debug_barrier() max_constancy(input, values) max_contiguous(input, values) multiple_of(input, values)
inline_asm_elementwise(asm, constraints, args, dtype, is_pure, pack)
"""


def _parse(signatures: str, module: str) -> dict[str, Function]:
    functions = {}
    tree = ast.parse(_one_call_a_line(signatures))
    for statement in tree.body:
        arguments = statement.args
        names = [argument.arg for argument in arguments.args]
        values = [_default(node) for node in arguments.defaults]
        defaults = dict(zip(names[len(names) - len(values) :], values, strict=True))
        variadic = arguments.vararg is not None
        names += [arguments.vararg.arg] if variadic else []
        functions[statement.name] = Function(statement.name, tuple(names), defaults, variadic, module)
    return functions


def _one_call_a_line(signatures: str) -> str:
    calls = signatures.replace("\n", " ").replace(") ", ")\n").strip()
    return "\n".join(f"def {call}: ..." for call in calls.splitlines() if call.strip())


def _default(node: ast.expr):
    if isinstance(node, ast.Name):
        return dtypes.BY_NAME[node.id]
    return ast.literal_eval(node)


FUNCTIONS: dict[str, Function] = _parse(_SIGNATURES, "ninetoothed.language")

# Unary and binary functions of `libdevice` that both backends have, by PyTorch's and CUDA's common names.
LIBDEVICE: dict[str, Function] = _parse(
    """
    abs(x) acos(x) acosh(x) asin(x) asinh(x) atan(x) atanh(x) ceil(x) cos(x) cosh(x) erf(x) erfc(x) erfinv(x) exp(x)
    exp2(x) expm1(x) floor(x) lgamma(x) log(x) log10(x) log1p(x) log2(x) nearbyint(x) rint(x) round(x) rsqrt(x) sin(x)
    sinh(x) sqrt(x) tan(x) tanh(x) tgamma(x) trunc(x) isnan(x) isinf(x) signbit(x) atan2(x, y) copysign(x, y) fmod(x, y)
    hypot(x, y) pow(x, y) fma(x, y, z) div_rn(x, y) fast_expf(x) fast_logf(x) fast_tanhf(x) fast_dividef(x, y)
    j0(x) j1(x)
    """,
    "ninetoothed.language.libdevice",
)


@dataclass(frozen=True)
class _Namespace:
    """A namespace of functions within `ninetoothed.language`."""

    name: str
    functions: dict[str, Function]

    def __getattr__(self, name: str) -> Function:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self.functions:
            raise AttributeError(f"ninetoothed.language.{self.name} has no function {name!r}")
        return self.functions[name]

    def __dir__(self):
        return sorted(self.functions)


libdevice = _Namespace("libdevice", LIBDEVICE)
_MATH = "abs ceil cos div_rn erf exp exp2 fdiv floor fma log log2 rsqrt sin sqrt sqrt_rn umulhi"
math = _Namespace("math", {name: FUNCTIONS[name] for name in _MATH.split()})


class PropagateNan(enum.Enum):
    """Whether `maximum`, `minimum` and `clamp` give NaN for an operand that is NaN."""

    NONE = 0
    ALL = 0xFFFF


class constexpr:
    """Marks an annotation as known when compiling (`p: ntl.constexpr = "ieee"`); calling it returns its argument."""

    def __new__(cls, value=None):
        return value


def __getattr__(name: str):
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if name in dtypes.BY_NAME:
        return dtypes.BY_NAME[name]
    if name.startswith("__"):
        raise AttributeError(name)
    near = difflib.get_close_matches(name, __dir__(), 3)
    offered = f"did you mean {' or '.join(near)}?" if near else f"it offers: {', '.join(__dir__())}"
    raise AttributeError(f"ninetoothed.language has no {name!r}; {offered}")


def __dir__():
    return sorted([*FUNCTIONS, *dtypes.BY_NAME, "libdevice", "math", "constexpr", "PropagateNan"])

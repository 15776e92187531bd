"""The names that an application may call, with the signatures of `triton.language`, which they follow."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from ninetoothed import dtypes
from ninetoothed.errors import ApplicationError


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

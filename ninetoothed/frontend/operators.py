"""Apply Python's operators to Python objects, integer expressions, and tiles."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from ninetoothed import dtypes
from ninetoothed.expr import Expr, Facts, const, is_nonnegative, maximum, minimum, simplify
from ninetoothed.frontend import memory, shapes
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.values import TileRef, shown
from ninetoothed.ir import Value
from ninetoothed.language.primitives import PRIMITIVES

# Syntax -> (primitive, Python's own meaning)
BINARY = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("sub", operator.sub),
    ast.Mult: ("mul", operator.mul),
    ast.Div: ("truediv", operator.truediv),
    ast.FloorDiv: ("floordiv", operator.floordiv),
    ast.Mod: ("mod", operator.mod),
    ast.Pow: ("pow", operator.pow),
    ast.LShift: ("lshift", operator.lshift),
    ast.RShift: ("rshift", operator.rshift),
    ast.BitAnd: ("and", operator.and_),
    ast.BitOr: ("or", operator.or_),
    ast.BitXor: ("xor", operator.xor),
    ast.MatMult: ("dot", operator.matmul),
    ast.Eq: ("eq", operator.eq),
    ast.NotEq: ("ne", operator.ne),
    ast.Lt: ("lt", operator.lt),
    ast.LtE: ("le", operator.le),
    ast.Gt: ("gt", operator.gt),
    ast.GtE: ("ge", operator.ge),
}
_PYTHON = dict(BINARY.values())
_SIGNS = dict(
    zip(_PYTHON, "+ - * / // % ** << >> & | ^ @ == != < <= > >=".split(), strict=True),
)
REDUCE = "index one element, or reduce it, say with `ntl.max`"
_EXPR = frozenset({"add", "sub", "mul", "floordiv", "mod"})


def is_number(value: Any) -> bool:
    """Tell whether a value is a Python number."""
    return isinstance(value, bool | int | float)


def is_dynamic(value: Any) -> bool:
    """Tell whether a value is known only when the kernel runs."""
    return isinstance(value, Value | TileRef | Expr)


def operand(context: TraceContext, value: Any) -> Any:
    """Load a handle; constant expressions become Python integers."""
    if isinstance(value, TileRef):
        return memory.load(context, value)
    if isinstance(value, Expr) and value.is_constant:
        return value.constant
    return value


def binary(context: TraceContext, name: str, lhs: Any, rhs: Any) -> Any:
    """Apply a binary operator, folded as far as it is known when compiling."""
    lhs, rhs = operand(context, lhs), operand(context, rhs)
    if not is_dynamic(lhs) and not is_dynamic(rhs):
        try:
            return _PYTHON[name](lhs, rhs)
        except TypeError:
            raise context.error(
                f"{shown(lhs)} and {shown(rhs)} cannot be combined by `{_SIGNS[name]}`; tiles and numbers can"
            ) from None
    for side in (lhs, rhs):
        if not is_dynamic(side) and not is_number(side):
            if name in ("eq", "ne"):
                return name == "ne"
            remedy = "only numbers can, and tensors are parameters of the kernel"
            raise context.error(f"{shown(side)} cannot be combined with a tile; {remedy}")
    if not isinstance(lhs, Value) and not isinstance(rhs, Value):
        folded = _on_expressions(context, name, lhs, rhs)
        if folded is not None:
            return folded
    if name == "pow":
        return power(context, lhs, rhs)
    _check_types(context, name, lhs, rhs)
    return context.builder.binary(name, lhs, rhs)


def _check_types(context: TraceContext, name: str, lhs: Any, rhs: Any) -> None:
    for side, other in ((lhs, rhs), (rhs, lhs)):
        if isinstance(side, Value) and isinstance(side.type.dtype, dtypes.PointerType) and name not in ("add", "sub"):
            raise context.error(f"pointers can be added to, not combined by `{_SIGNS[name]}`")
        if name in ("and", "or", "xor", "lshift", "rshift"):
            common = context.builder.common_type(side, other)
            if common.is_floating and PRIMITIVES[name].computed_in(common) is None:
                raise context.error(
                    f"bitwise operator `{_SIGNS[name]}` works on integers and bools, not on {common}; convert with"
                    " `.to(ntl.int32)`, or its bits with `.to(ntl.int32, bitcast=True)`"
                )
            bits = common.bits if common.bits > 1 else dtypes.int32.bits
            if name.endswith("shift") and isinstance(rhs, int) and not 0 <= rhs < bits:
                raise context.error(
                    f"{common} has {bits} bits, which `{_SIGNS[name]}` cannot shift by {rhs}: GPUs leave open what that"
                    " gives; convert to a wider type with `.to`, or where the distance is negative shift the other way"
                )


def _on_expressions(context: TraceContext, name: str, lhs: Expr | int | float, rhs: Expr | int | float) -> Any:
    """Fold arithmetic and comparisons of sizes and counters symbolically; None where that is not possible."""
    if isinstance(lhs, float) or isinstance(rhs, float):
        return None
    lhs = lhs if isinstance(lhs, Expr) else const(int(lhs))
    rhs = rhs if isinstance(rhs, Expr) else const(int(rhs))
    facts = context.facts
    if name in _EXPR:
        if name in ("floordiv", "mod") and not is_nonnegative(rhs - 1, facts):
            return None
        return _simplified(_PYTHON[name](lhs, rhs), facts)
    if PRIMITIVES[name].is_comparison:
        return _decide(name, lhs, rhs, facts)
    return None


def _simplified(expr: Expr, facts: Facts) -> Expr | int:
    """Simplify an expression, but not to a number that follows from ranges alone, such as a counter of just one value.

    Such an expression is constant in this variant alone, and keeps its meaning: in `x[k - 1]`, -1 is no last element.
    """
    if expr.is_constant:
        return expr.constant
    simple = simplify(expr, facts)
    return expr if simple.is_constant else simple


def _decide(name: str, lhs: Expr, rhs: Expr, facts: Facts) -> bool | None:
    """Decide a comparison: it gives the same for each order of the sides that their ranges allow; None where not."""
    difference = simplify(lhs - rhs, facts)
    excluded = {
        -1: is_nonnegative(difference, facts),
        0: is_nonnegative(difference - 1, facts) or is_nonnegative(-difference - 1, facts),
        1: is_nonnegative(-difference, facts),
    }
    outcomes = {_PYTHON[name](order, 0) for order, is_excluded in excluded.items() if not is_excluded}
    return outcomes.pop() if len(outcomes) == 1 else None


def power(context: TraceContext, base: Any, exponent: Any) -> Value:
    """Compute `base ** exponent`: by multiplication for known exponents that are small or of integers.

    Of integers that are known only when the kernel runs it is an integer, which wraps around as products do. A negative
    exponent then gives the quotient without its fraction, as in PyTorch: 0, but for a base of 1 or -1.
    """
    builder = context.builder
    common = builder.common_type(base, exponent)
    if isinstance(exponent, int) and exponent >= 0 and (exponent <= 64 or not common.is_floating):
        result = None
        square = builder.value(base)
        n = exponent
        while n:
            if n & 1:
                result = square if result is None else builder.binary("mul", result, square)
            n >>= 1
            if n:
                square = builder.binary("mul", square, square)
        return result if result is not None else ones_like(context, builder.value(base))
    if exponent in (0.5, -0.5):  # as PyTorch has them: NaN of -inf
        return builder.floating("sqrt" if exponent > 0 else "rsqrt", base)
    if not common.is_floating and not isinstance(exponent, int):
        return builder.elementwise("pow", base, exponent, dtype=dtypes.int32 if common.bits < 32 else common)
    return builder.floating("pow", base, exponent)


def ones_like(context: TraceContext, value: Value) -> Value:
    """Make ones of a value's shape and type."""
    one = context.builder.constant(1, value.type.dtype)
    return context.builder.broadcast_to(one, shapes.extents_of(value.type))


_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}


def unary(context: TraceContext, node: ast.unaryop, value: Any) -> Any:
    """Apply a unary operator."""
    value = operand(context, value)
    if isinstance(node, ast.Not):
        return context.builder.apply("invert", (truth(context, value),)) if is_dynamic(value) else not value
    if not is_dynamic(value):
        return _UNARY[type(node)](value)
    if isinstance(node, ast.UAdd):
        return value
    if isinstance(node, ast.USub):
        if isinstance(value, Expr):
            return -value
        if value.type.dtype == dtypes.int1:
            value = context.builder.cast(value, dtypes.int32)
        return context.builder.elementwise("neg", value)
    value = context.builder.value(value)
    if PRIMITIVES["invert"].computed_in(value.type.dtype) is None:
        raise context.error(
            f"`~` works on integers and bools, not on {value.type.dtype}; convert with `.to(ntl.int32)`, or write"
            " `1 - x`"
        )
    return context.builder.apply("invert", (value,))


def truth(context: TraceContext, value: Any) -> Value:
    """Convert a dynamic value to int1: whether it differs from zero."""
    value = context.builder.value(operand(context, value))
    return value if value.type.dtype == dtypes.int1 else context.builder.binary("ne", value, 0)


def logical(context: TraceContext, name: str, lhs: Any, rhs: Any) -> Any:
    """Combine by `and` or `or` where at least one side is dynamic; element-wise on tiles."""
    if not is_dynamic(operand(context, rhs)):
        decisive = bool(rhs) == (name == "or")
        if decisive:
            return bool(rhs)
        return truth(context, lhs)
    return context.builder.elementwise(name, truth(context, lhs), truth(context, rhs), dtype=dtypes.int1)


def extremum(context: TraceContext, name: str, operands: tuple) -> Any:
    """Apply Python's `min` or `max` to several numbers, expressions or tiles."""
    values = [operand(context, value) for value in operands]
    if not any(is_dynamic(value) for value in values):
        return (max if name == "maximum" else min)(*values)
    if any(isinstance(value, Expr) for value in values):
        values = [_indexing(context, value) for value in values]
    if not any(isinstance(value, Value | float) for value in values):
        return _simplified((maximum if name == "maximum" else minimum)(*values), context.facts)
    result = values[0]
    for value in values[1:]:
        result = context.builder.elementwise(name, result, value)
    return result


def _indexing(context: TraceContext, value: Any) -> Any:
    """Convert a computed number of the index type to an expression, whose bounds can be proved."""
    is_index = isinstance(value, Value) and value.type.is_scalar and value.type.dtype == dtypes.int32
    return context.builder.expr_of(value) if is_index else value


def scalar(context: TraceContext, value: Any, what: str, remedy: str = REDUCE) -> Value:
    """Read a dynamic value as a scalar; a tile of one element gives that element."""
    value = context.builder.value(operand(context, value))
    if any(lanes != 1 for lanes in value.type.lanes):
        raise context.error(
            f"{what} must be one number, not a tile of shape {shapes.text(shapes.extents_of(value.type))}; {remedy}"
        )
    if value.type.is_scalar:
        return value
    return context.builder.apply("reshape", (value,), shape=())


def integer(context: TraceContext, value: Any, what: str) -> Expr | int:
    """Convert an index or a loop bound to an integer expression."""
    value = operand(context, value)
    if isinstance(value, bool | int | Expr):
        return value
    if not isinstance(value, Value):
        remedy = "; divide with `//`, or convert it with `int(...)`" if isinstance(value, float) else ""
        raise context.error(f"{what} must be an integer, not {shown(value)}{remedy or '; give a number'}")
    value = scalar(context, value, what)
    if value.type.dtype.is_floating:
        raise context.error(f"{what} must be an integer, not {value.type.dtype}; convert it with `.to(ntl.int32)`")
    expr = context.builder.expr_of(value)
    return expr.constant if expr.is_constant else expr

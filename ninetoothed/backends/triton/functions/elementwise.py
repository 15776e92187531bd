"""Print functions that are computed lane by lane: Triton broadcasts their operands."""

from __future__ import annotations

import ast
import re

from ninetoothed import dtypes, ir
from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.context import EmitContext, ValueText
from ninetoothed.backends.triton.functions.products import accumulated
from ninetoothed.backends.triton.functions.values import (
    dtype_node,
    exact,
    held,
    meet,
    named,
    retyped,
    typed,
    weakly,
    whole,
)
from ninetoothed.dtypes import DType, PointerType

_OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "and": "&",
    "or": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
# Functions that Triton has under the same name, with operands of one type.
_SAME_NAME = frozenset(
    "exp exp2 log log2 sqrt sqrt_rn rsqrt sin cos erf sigmoid floor ceil abs div_rn umulhi fma where".split()
)


# Powers of integers, by squaring: Triton has none. Of 1 / base only the parity of the exponent is left.
_WHOLE_POWER = """\
@triton.jit
def whole_power(base, exponent):
    square = base
    rest = exponent
    power = tl.where(base == base, 1, base)
    for _ in range(base.dtype.primitive_bitwidth):
        power = tl.where((rest & 1) == 1, power * square, power)
        square = square * square
        rest = rest >> 1
    is_fraction = (exponent < 0) & (base != 1) & (base + 1 != 0)
    return tl.where(is_fraction, 0, power)
"""


def _elementwise(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    """Print an operation that works lane by lane, as an operator or a call."""
    function = operation.function
    if function == "add" and (fused := accumulated(context, operation)):
        return fused
    shape = meet(operands)
    if operation.primitive.is_comparison:
        nodes = [exact(text, value.type.dtype) for text, value in zip(operands, operation.operands, strict=True)]
        return ValueText(syntax.binary(_OPERATORS[function], *nodes), shape)
    if function in _OPERATORS:
        return ValueText(syntax.binary(_OPERATORS[function], *weakly(operation, operands)), shape)
    if function == "where":
        condition, *values = weakly(operation, operands, first=1)
        return ValueText(syntax.call("tl.where", typed(operands[0], dtypes.int1), *values), shape)
    if function in ("fma", "div_rn", "umulhi"):
        nodes = [typed(text, value.type.dtype) for text, value in zip(operands, operation.operands, strict=True)]
    else:
        nodes = weakly(operation, operands)
    if operation.result.type.dtype == dtypes.float64:  # of which Triton (3.6 to 3.9) rounds nothing else
        if function == "div_rn":
            return ValueText(syntax.binary("/", *nodes), shape)
        function = "sqrt" if function == "sqrt_rn" else function
    return ValueText(syntax.call(f"tl.{function}", *nodes), shape)


def _neg(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    (operand,) = operands
    if operand.constant is not None:
        number = held(-operand.constant, operation.result.type.dtype)
        if number is not None:
            return ValueText(syntax.number(number), (), number)
    return ValueText(syntax.negate(operand.node), operand.shape)


def _invert(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    (node,) = weakly(operation, operands)
    if isinstance(operands[0].constant, bool):
        return ValueText(syntax.number(not operands[0].constant), (), not operands[0].constant)
    if operation.result.type.dtype == dtypes.int1 and not operands[0].shape:
        return ValueText(syntax.negated(node))
    return ValueText(syntax.invert(node), operands[0].shape)


def _extremum(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    """Triton makes a number float32 or int32, and promotes the other operand; bfloat16 by itself before 3.9."""
    dtype, nodes = operation.result.type.dtype, weakly(operation, operands)
    if dtype not in (dtypes.float32, dtypes.int32, dtypes.bfloat16):
        nodes = [typed(text, dtype) for text in operands]
    propagate = syntax.name("tl.PropagateNan.ALL") if operation.attribute("propagate_nan") else None
    node = syntax.call(f"tl.{operation.function}", *nodes, propagate_nan=propagate)
    return retyped(ValueText(node, meet(operands)), dtypes.float32 if dtype == dtypes.bfloat16 else dtype, dtype)


def _pow(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    base, exponent = operands
    if operation.result.type.dtype.is_integer:
        if _WHOLE_POWER not in context.helpers:
            context.helpers.append(_WHOLE_POWER)
        return ValueText(syntax.call("whole_power", *whole(operation, operands)), operation.result.type.lanes)
    if exponent.constant == 2 and base.constant is None:
        node = named(context, "base", base.node)
        return ValueText(syntax.binary("*", node, node), base.shape)
    if exponent.constant == 0.5 and base.constant is None:
        return ValueText(syntax.call("tl.sqrt", base.node), base.shape)
    return _libdevice(context, operation, operands)


def _libdevice(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    """Call the function of CUDA's library that an attribute names, or that is called like the primitive."""
    context.libdevice = True
    function = operation.attribute("name", operation.function)
    takes_unsigned = _TAKES_UNSIGNED.match(function) is not None
    nodes = [
        _signed(typed(text, value.type.dtype), value.type.dtype, takes_unsigned)
        for text, value in zip(operands, operation.operands, strict=True)
    ]
    node, dtype = syntax.call(f"libdevice.{function}", *nodes), operation.result.type.dtype
    if function == "signbit":  # an int32
        node = syntax.binary("!=", node, syntax.number(0))
    if dtype.category == "uint" and not (takes_unsigned and function != "sad"):
        node = syntax.call(ast.Attribute(node, "to"), dtype_node(dtype), bitcast=True)
    return ValueText(node, meet(operands))


# Those that Triton has of unsigned integers; to all others their bits are passed as signed ones, and come back so.
_TAKES_UNSIGNED = re.compile("uint|ull|mulhi|mul24|r?hadd|sad")


def _signed(node: ast.expr, dtype: DType | PointerType, takes_unsigned: bool) -> ast.expr:
    if dtype.category != "uint" or takes_unsigned:
        return node
    assert isinstance(dtype, DType)
    return syntax.call(ast.Attribute(node, "to"), dtype_node(dtypes.BY_NAME[dtype.name[1:]]), bitcast=True)


def _fast_tanhf(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    """Print the instruction: CUDA's library has no function of this name."""
    node = syntax.call(
        "tl.inline_asm_elementwise", "tanh.approx.f32 $0, $1;", "=f,f", ast.List(whole(operation, operands)),
        dtype=dtype_node(dtypes.float32), is_pure=True, pack=1,
    )  # fmt: skip
    return ValueText(node, operation.result.type.lanes)


# To float8e5 from float32, on GPUs without an instruction for it, where Triton (3.6 to 3.9) rounds towards zero.
# What is added and taken away again has a last digit worth the last of the result, and so rounds to it.
_TO_FLOAT8E5 = """\
@triton.jit
def to_float8e5(x):
    size = tl.minimum(tl.abs(x), 57344.0, propagate_nan=tl.PropagateNan.ALL)
    exponent = tl.maximum(size, 2.0**-14).to(tl.int32, bitcast=True) & 0x7F800000
    rounding = exponent.to(tl.float32, bitcast=True) * 2.0**21
    half = ((size + rounding) - rounding).to(tl.float16).to(tl.int16, bitcast=True)
    sign = (x.to(tl.int32, bitcast=True) >> 24) & 0x80
    return ((half >> 8) | sign).to(tl.uint8).to(tl.float8e5, bitcast=True)
"""


def _cast(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    """Print a conversion; of a known number, the number that it gives."""
    (operand,) = operands
    dtype, (value,) = operation.result.type.dtype, operation.operands
    if operand.constant is not None:
        number = held(operand.constant, value.type.dtype)
        number = None if number is None else held(number, dtype)
        if number is not None:
            return ValueText(syntax.number(number), (), number)
    source, single = value.type.dtype, dtypes.float32
    if source != dtype and (_is_float8(source) or _is_float8(dtype)):
        node = typed(operand, single) if source == single else _converted(operand, value.type, single)
        node = node if dtype in (single, dtypes.int1) else _of_single(context, node, dtype)
    else:
        node = typed(operand, single) if dtype == dtypes.int1 else _converted(operand, value.type, dtype)
    return ValueText(syntax.binary("!=", node, syntax.number(0)) if dtype == dtypes.int1 else node, operand.shape)


def _of_single(context: EmitContext, node: ast.expr, dtype: DType | PointerType) -> ast.expr:
    """Print a conversion from float32, by which all from and to float8 go.

    Of the others of Triton (3.6 to 3.9) some are wrong: float8e5 gives bfloat16 65536 for infinity, and on AMD's GPUs
    some float16 beyond the greatest float8e4nv become NaN.
    """
    through = _through(dtypes.float32, dtype)
    node = node if through is None else syntax.method(node, "to", dtype_node(through))
    if not _is_float8(dtype) or context.target.converts_float8:
        return syntax.method(node, "to", dtype_node(dtype))
    if dtype == dtypes.float8e5:
        if _TO_FLOAT8E5 not in context.helpers:
            context.helpers.append(_TO_FLOAT8E5)
        return syntax.call("to_float8e5", node)
    assert isinstance(dtype, DType)
    least, greatest = dtype.range
    within = syntax.call("tl.clamp", node, least, greatest, propagate_nan=syntax.name("tl.PropagateNan.ALL"))
    return syntax.method(within, "to", dtype_node(dtype))


def _converted(operand: ValueText, type: ir.TileType, dtype: DType | PointerType) -> ast.expr:
    """Print a conversion that Triton has."""
    through = _through(type.dtype, dtype)
    if through is not None:
        return syntax.method(_converted(operand, type, through), "to", dtype_node(dtype))
    if type.is_scalar and type.dtype.is_integer:  # in Triton's interpreter a loop counter is an int
        return syntax.call("tl.cast", operand.node, dtype_node(dtype))
    return syntax.method(typed(operand, type.dtype), "to", dtype_node(dtype))


def _through(source: DType | PointerType, target: DType | PointerType) -> DType | None:
    """Return int32 for floats that become narrower integers.

    A GPU packs lanes of these, and one beyond them would spoil those beside it: of 70000.0 and 0.5 both became 255.
    """
    return dtypes.int32 if source.is_floating and target.is_integer and target.bits < 32 else None


def _is_float8(dtype: DType | PointerType) -> bool:
    return isinstance(dtype, DType) and dtype.is_float8


def _bitcast(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    (operand,), (value,) = operands, operation.operands
    node = syntax.call(
        ast.Attribute(typed(operand, value.type.dtype), "to"), dtype_node(operation.result.type.dtype), bitcast=True
    )
    return ValueText(node, operand.shape)


_FAST = "cos divide exp exp10 log log10 log2 pow sin tan"
FUNCTIONS = {
    **dict.fromkeys((*_OPERATORS, *_SAME_NAME), _elementwise),
    "neg": _neg,
    "invert": _invert,
    "maximum": _extremum,
    "minimum": _extremum,
    "pow": _pow,
    "tanh": _libdevice,
    **dict.fromkeys(("libdevice", *(f"fast_{name}f" for name in _FAST.split())), _libdevice),
    "fast_tanhf": _fast_tanhf,
    "cast": _cast,
    "bitcast": _bitcast,
}

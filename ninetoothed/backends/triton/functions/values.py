"""Print values as operands of Triton's functions: with a type, and with as many lanes as are needed."""

from __future__ import annotations

import ast
import math
import struct
from collections.abc import Callable
from typing import Any

from ninetoothed import dtypes, ir
from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.context import EmitContext, ValueText
from ninetoothed.dtypes import DType, PointerType


def dtype_node(dtype: DType | PointerType) -> ast.expr:
    """Return the name of an element type in Triton."""
    assert isinstance(dtype, DType), "Triton has no name for a pointer to a parameter"
    return syntax.name(f"tl.{dtype.name}")


def typed(text: ValueText, dtype: DType | PointerType) -> ast.expr:
    """Return a literal with its type, for operands that would not give it one."""
    if text.constant is None:
        return text.node
    return _number((), text, dtype)


def _full(shape: tuple[int, ...], node: ast.expr, dtype: DType | PointerType) -> ast.expr:
    """Print a tile of one number."""
    return syntax.call("tl.full", shape, node, dtype_node(dtype))


def _number(shape: tuple[int, ...], text: ValueText, dtype: DType | PointerType) -> ast.expr:
    """Print a tile of a known number. Triton 3.6 makes none of float8 but zeros; others are made of their bits.

    A zero stays a constant: of a load that is filled with it, no select is left between shared memory and a product.
    """
    assert text.constant is not None
    if isinstance(dtype, DType) and dtype.is_float8 and _float8(float(text.constant), dtype):
        bits = _full(shape, syntax.number(_float8(float(text.constant), dtype)), dtypes.uint8)
        return syntax.call(ast.Attribute(bits, "to"), dtype_node(dtype), bitcast=True)
    return _full(shape, text.node, dtype)


def _float8(number: float, dtype: DType) -> int:
    """Return the bits of the nearest number of eight bits, an even one of two; what is beyond all saturates."""
    digits, bias = (3, 7) if dtype == dtypes.float8e4nv else (2, 15)
    if math.isnan(number):
        return 0x7F
    size = min(abs(number), dtype.range[1])
    exponent = max(math.frexp(size)[1] - 1, 1 - bias) if size else 1 - bias
    bits = round(math.ldexp(size, digits - exponent)) + (exponent + bias - 1 << digits)
    return bits | (0x80 if math.copysign(1, number) < 0 else 0)


def held(number: int | float | bool, dtype: DType | PointerType) -> int | float | bool | None:
    """Convert a number to a type: wrapped around, or rounded. None where that is left to the GPU."""
    if dtype == dtypes.int1:
        return bool(number)
    if not dtype.is_floating:
        lowest = 0 if dtype.category == "uint" else -(1 << (dtype.bits - 1))
        if isinstance(number, float):
            assert isinstance(dtype, DType)
            number = dtype.truncated(number)
        return (int(number) - lowest) % (1 << dtype.bits) + lowest
    if dtype == dtypes.bfloat16:
        return _to_bfloat16(float(number))
    formats: dict[DType | PointerType, str] = {dtypes.float16: "e", dtypes.float32: "f", dtypes.float64: "d"}
    form = formats.get(dtype)
    return None if form is None else _rounded(float(number), form)


def _rounded(number: float, form: str) -> float:
    """Return the nearest number of one of the formats of `struct`."""
    try:
        return struct.unpack(form, struct.pack(form, number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def _to_bfloat16(number: float) -> float:
    """Return the nearest float32 whose lower half is 0, an even one of two."""
    number = _rounded(number, "f")
    if not math.isfinite(number):
        return number
    (bits,) = struct.unpack("I", struct.pack("f", number))
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return struct.unpack("f", struct.pack("I", bits))[0]


def materialise(text: ValueText, type: ir.TileType) -> ast.expr:
    """Return the text broadcast to all lanes of its type."""
    if text.shape == type.lanes:
        return typed(text, type.dtype)
    if text.constant is not None:
        if text.constant == 0 and math.copysign(1, text.constant) > 0:
            return syntax.call("tl.zeros", type.lanes, dtype_node(type.dtype))
        return _number(type.lanes, text, type.dtype)
    if not text.shape and not isinstance(type.dtype, PointerType):
        return syntax.call("tl.full", type.lanes, text.node, dtype_node(type.dtype))
    return syntax.call("tl.broadcast_to", text.node, type.lanes)


def whole(operation: ir.Apply, operands: list[ValueText]) -> list[ast.expr]:
    """Return the operands broadcast to all their lanes."""
    return [materialise(text, value.type) for text, value in zip(operands, operation.operands, strict=True)]


def called(**defaults: Any) -> Callable[[EmitContext, ir.Apply, list[ValueText]], ValueText]:
    """Make the printer of a call of Triton's of the same name, of whole operands and of attributes.

    defaults: those of Triton's, which are left out.
    """

    def text(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
        attributes = ((name, operation.attribute(name, default)) for name, default in defaults.items())
        given = {name: value for name, value in attributes if value != defaults[name]}
        node = syntax.call(f"tl.{operation.function}", *whole(operation, operands), **given)
        return ValueText(node, operation.results[0].type.lanes)

    return text


def union(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common shape of shapes of one rank; () for none, or scalars alone."""
    ranked = [shape for shape in shapes if shape]
    return tuple(map(max, *ranked)) if len(ranked) > 1 else ranked[0] if ranked else ()


def meet(operands: list[ValueText]) -> tuple[int, ...]:
    """Return the common shape of operands that Triton broadcasts."""
    return union(*(text.shape for text in operands))


def weakly(operation: ir.Apply, operands: list[ValueText], first: int = 0) -> list[ast.expr]:
    """Return the operands from `first` on; literals stay bare where another operand gives them its type.

    Not float8: Triton takes such a literal, and fails to convert it.
    """
    nodes, types = [text.node for text in operands], [value.type.dtype for value in operation.operands]
    is_float8 = isinstance(types[-1], DType) and types[-1].is_float8
    are_numbers = all(text.constant is not None for text in operands[first:])
    for place in range(first, len(nodes)) if is_float8 else [first] if are_numbers else []:
        nodes[place] = typed(operands[place], types[place])
    return nodes


def exact(text: ValueText, dtype: DType | PointerType) -> ast.expr:
    """Return a text where Triton takes a literal for float32 or int32: in comparisons, and beside pointers."""
    if text.constant is None or not dtype.is_floating or dtype == dtypes.float32:
        return text.node
    number = held(text.constant, dtype)
    if number is None or (dtype == dtypes.float64 and number != _rounded(number, "f") and math.isfinite(number)):
        return typed(text, dtype)
    return syntax.number(number)


def named(context: EmitContext, wanted: str, node: ast.expr) -> ast.expr:
    """Return a text that may be repeated. A literal stays one: in a variable it would get a type of its own."""
    is_literal = isinstance(node, ast.Constant) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
    )
    return node if is_literal or isinstance(node, ast.Name) else context.assign(wanted, node)


def retyped(text: ValueText, actual: DType | PointerType, wanted: DType | PointerType) -> ValueText:
    """Convert a result of Triton's to the type that it must have."""
    if actual == wanted:
        return text
    return ValueText(syntax.method(text.node, "to", dtype_node(wanted)), text.shape)

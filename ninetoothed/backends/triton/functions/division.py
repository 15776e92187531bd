"""Print `//` and `%` with Python's meaning: the remainder takes the sign of the divisor."""

from __future__ import annotations

import ast

from ninetoothed import ir
from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.context import EmitContext, ValueText
from ninetoothed.backends.triton.functions.values import meet, named, typed, weakly


def _floordiv(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    """Print `//`: Triton's truncates, which is one above the floor where remainder and divisor differ in sign."""
    shape, dtype = meet(operands), operation.result.type.dtype
    lhs, rhs = weakly(operation, operands)
    if not dtype.is_floating and (operation.attribute("nonnegative") or dtype.category == "uint"):
        return ValueText(syntax.binary("//", lhs, rhs), shape)
    divisor = operands[1].constant
    if not dtype.is_floating and isinstance(divisor, int) and _is_power_of_two(operands[1]):
        lhs = named(context, "numerator", lhs)
        return ValueText(syntax.binary(">>", lhs, syntax.number(divisor.bit_length() - 1)), shape)
    lhs, rhs = named(context, "numerator", lhs), named(context, "divisor", rhs)
    remainder = _truncated(context, operation, operands, lhs, rhs)
    if dtype.is_floating:
        return ValueText(_floating_quotient(context, lhs, rhs, remainder, operands[1]), shape)
    quotient = context.assign("quotient", syntax.binary("//", lhs, rhs))
    below = syntax.binary("-", quotient, syntax.number(1))
    return ValueText(syntax.call("tl.where", _is_beside(remainder, rhs, operands[1]), below, quotient), shape)


def _floating_quotient(
    context: EmitContext, lhs: ast.expr, rhs: ast.expr, remainder: ast.expr, divisor: ValueText
) -> ast.expr:
    """Divide floats as Python does: subtract the remainder, divide, and round to the nearest whole number."""
    whole = context.assign("quotient", syntax.binary("/", syntax.binary("-", lhs, remainder), rhs))
    floored = syntax.call(
        "tl.where", _is_beside(remainder, rhs, divisor), syntax.binary("-", whole, syntax.number(1.0)), whole
    )
    floored = context.assign("quotient", floored)
    # Not by adding a half, which rounds up the odd numbers from half of those on that have no fraction.
    below = context.assign("below", syntax.call("tl.floor", floored))
    is_above = syntax.binary(">", syntax.binary("-", floored, below), syntax.number(0.5))
    nearest = syntax.call("tl.where", is_above, syntax.binary("+", below, syntax.number(1.0)), below)
    is_zero = syntax.binary("==", rhs, syntax.number(0.0))
    return syntax.call("tl.where", is_zero, syntax.binary("/", lhs, rhs), nearest)


def _truncated(
    context: EmitContext, operation: ir.Apply, operands: list[ValueText], lhs: ast.expr, rhs: ast.expr
) -> ast.expr:
    """Take the remainder with the sign of the dividend.

    That of floats is CUDA's, which is exact: on a GPU Triton's `%` subtracts as many divisors as a rounded quotient
    says, and gave -29.5 for 2147483648.0 % 2.5.
    """
    dtype = operation.result.type.dtype
    if not dtype.is_floating:
        return context.assign("remainder", syntax.binary("%", lhs, rhs))
    context.libdevice = True
    sides = [node if text.constant is None else typed(text, dtype) for node, text in zip((lhs, rhs), operands)]
    return context.assign("remainder", syntax.call("libdevice.fmod", *sides))


def _mod(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    """Take the remainder with the sign of the divisor, as Python does; Triton's has the sign of the dividend."""
    shape, dtype = meet(operands), operation.result.type.dtype
    lhs, rhs = weakly(operation, operands)
    if not dtype.is_floating and (operation.attribute("nonnegative") or dtype.category == "uint"):
        return ValueText(syntax.binary("%", lhs, rhs), shape)
    divisor = operands[1].constant
    if not dtype.is_floating and isinstance(divisor, int) and _is_power_of_two(operands[1]):
        lhs = named(context, "numerator", lhs)
        return ValueText(syntax.binary("&", lhs, syntax.number(divisor - 1)), shape)
    rhs = named(context, "divisor", rhs)
    remainder = _truncated(context, operation, operands, lhs, rhs)
    is_beside = _is_beside(remainder, rhs, operands[1])
    return ValueText(syntax.call("tl.where", is_beside, syntax.binary("+", remainder, rhs), remainder), shape)


def _is_beside(remainder: ast.expr, divisor: ast.expr, text: ValueText) -> ast.expr:
    """Tell whether truncated and floored remainder differ: the sign is not the divisor's. Nothing overflows."""
    is_negative = syntax.binary("<", remainder, syntax.number(0))
    if text.constant is not None:
        return is_negative if text.constant > 0 else syntax.binary(">", remainder, syntax.number(0))
    signs_differ = syntax.binary("!=", is_negative, syntax.binary("<", divisor, syntax.number(0)))
    return syntax.binary("&", syntax.binary("!=", remainder, syntax.number(0)), signs_differ)


def _is_power_of_two(text: ValueText) -> bool:
    return isinstance(text.constant, int) and text.constant > 0 and text.constant & (text.constant - 1) == 0


FUNCTIONS = {"floordiv": _floordiv, "mod": _mod}

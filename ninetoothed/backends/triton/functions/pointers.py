"""Print loads, stores and atomic operations through pointers."""

from __future__ import annotations

import ast

from ninetoothed import ir
from ninetoothed.backends.triton import barriers, syntax
from ninetoothed.backends.triton.context import EmitContext, ValueText
from ninetoothed.backends.triton.functions.values import exact, materialise
from ninetoothed.dtypes import PointerType


def _data_ptr(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    return ValueText(context.argument(operation.attribute("parameter")))


def _load_pointer(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    barriers.before_read(context, _parameter(operation))
    pointer, mask, other = (*_pointers(operation, operands), None)[:3]
    return ValueText(syntax.call("tl.load", pointer, mask=mask, other=other), operation.result.type.lanes)


def _store_pointer(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    barriers.before_write(context, _parameter(operation))
    pointer, value, mask = (*_pointers(operation, operands), None)[:3]
    return ValueText(syntax.call("tl.store", pointer, value, mask=mask))


def _parameter(operation: ir.Apply) -> str:
    """Name the parameter into which the pointers of an operation point."""
    dtype = operation.operands[0].type.dtype
    assert isinstance(dtype, PointerType)
    return dtype.parameter


def _pointers(operation: ir.Apply, operands: list[ValueText]) -> list[ast.expr | None]:
    """Return the operands: pointers and masks with all their lanes, numbers unchanged, None for absent ones."""
    pointer, *rest = operands
    nodes = [materialise(pointer, operation.operands[0].type), *_typed(operation, rest)]
    return nodes + [None] * (3 - len(nodes))


def _typed(operation: ir.Apply, rest: list[ValueText]) -> list[ast.expr]:
    """Return the operands after the pointers, with the types that they have."""
    return [exact(text, value.type.dtype) for text, value in zip(rest, operation.operands[1:], strict=True)]


def _atomic(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    pointer_type = operation.operands[0].type
    barriers.before_write(context, _parameter(operation))
    pointer = materialise(operands[0], pointer_type)
    values = _typed(operation, operands[1:])
    keywords = {name: operation.attribute(name) for name in ("sem", "scope")}
    if operation.primitive.is_masked and len(values) == 2:
        keywords = {"mask": values.pop(), **keywords}
    node = syntax.call(f"tl.{operation.function}", pointer, *values, **keywords)
    return ValueText(node, pointer_type.lanes)


FUNCTIONS = {
    "data_ptr": _data_ptr,
    "load_pointer": _load_pointer,
    "store_pointer": _store_pointer,
    **{f"atomic_{name}": _atomic for name in "add max min and or xor xchg cas".split()},
}

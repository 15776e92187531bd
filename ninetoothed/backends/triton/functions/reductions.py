"""Print reductions, scans, and other functions of all elements along an axis."""

from __future__ import annotations

import math

from ninetoothed import dtypes, ir
from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.context import EmitContext, ValueText
from ninetoothed.backends.triton.functions.values import called, dtype_node, retyped, whole
from ninetoothed.dtypes import DType, PointerType


def _reduction(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    function = operation.function
    (node,) = whole(operation, operands)
    keep_dims = True if operation.attribute("keep_dims") else None
    axis = _axis(operation)
    if axis is None and function in ("argmax", "argmin"):  # which Triton (3.6 to 3.9) gives along an axis alone
        flat = syntax.call("tl.reshape", node, (math.prod(operation.operands[0].type.lanes),))
        return retyped(
            ValueText(syntax.call(f"tl.{function}", flat, axis=0)), dtypes.int32, operation.result.type.dtype
        )
    whole_axis = [None] if axis is None and function == "reduce_or" else []  # whose axis has no default
    node = syntax.call(f"tl.{function}", node, *whole_axis, axis=axis, keep_dims=keep_dims)
    return retyped(ValueText(node, operation.result.type.lanes), _reduced(operation), operation.result.type.dtype)


def _axis(operation: ir.Apply) -> int | None:
    axis = operation.attribute("axis")
    return None if axis is None else axis % len(operation.operands[0].type.lanes)


def _reduced(operation: ir.Apply) -> DType | PointerType:
    """Return the type of Triton's reduction."""
    dtype = operation.operands[0].type.dtype
    if operation.function in ("argmax", "argmin"):
        return dtypes.int32
    if operation.function == "sum":
        return summed(dtype)
    if dtype.is_floating and dtype.bits < 32 and operation.function in ("max", "min"):
        return dtypes.float32
    if dtype.bits < 32 and not dtype.is_floating and operation.function in ("max", "min"):
        return dtypes.int32
    if dtype == dtypes.bfloat16:
        return dtypes.float32
    return dtype


def summed(dtype: DType | PointerType) -> DType | PointerType:
    """Return the type of Triton's sum over a type."""
    if dtype.bits >= 32 or dtype.is_floating:
        return dtypes.float32 if dtype == dtypes.bfloat16 else dtype
    return dtypes.uint32 if dtype.category == "uint" else dtypes.int32


def _scan(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    (node,) = whole(operation, operands)
    reverse = True if operation.attribute("reverse") else None
    node = syntax.call(f"tl.{operation.function}", node, axis=_axis(operation), reverse=reverse)
    actual = operation.operands[0].type.dtype
    if actual == dtypes.bfloat16:
        actual = dtypes.float32
    return retyped(ValueText(node, operation.result.type.lanes), actual, operation.result.type.dtype)


def _histogram(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    node, *mask = whole(operation, operands)
    if operation.operands[0].type.dtype.bits != 32:  # which Triton counts wrongly, or (3.6 to 3.9) not at all
        node = syntax.method(node, "to", dtype_node(dtypes.int32))
    node = syntax.call("tl.histogram", node, operation.attribute("num_bins"), mask=mask[0] if mask else None)
    return ValueText(node, operation.result.type.lanes)


FUNCTIONS = {
    **dict.fromkeys("sum max min xor_sum reduce_or argmax argmin".split(), _reduction),
    **dict.fromkeys(("cumsum", "cumprod"), _scan),
    "sort": called(descending=False),
    "histogram": _histogram,
}

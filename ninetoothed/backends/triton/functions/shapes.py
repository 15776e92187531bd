"""Print functions that change the shape of tiles or the order of elements."""

from __future__ import annotations

import ast

from ninetoothed import ir
from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.context import EmitContext, ValueText
from ninetoothed.backends.triton.functions.reductions import summed
from ninetoothed.backends.triton.functions.values import called, materialise, retyped, whole


def _same(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    """Print `full` and `broadcast` as their operand: whatever needs all lanes broadcasts it."""
    (operand,) = operands
    lanes = operation.result.type.lanes
    return ValueText(operand.node, operand.shape if len(operand.shape) == len(lanes) else (), operand.constant)


def _expand_dims(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    (operand,) = operands
    if not operand.shape:
        return operand
    rank = len(operation.result.type.lanes)
    axis = operation.attribute("axis") % rank
    shape = (*operand.shape[:axis], 1, *operand.shape[axis:])
    return ValueText(_with_new_axis(operand.node, axis, rank), shape)


def _with_new_axis(node: ast.expr, axis: int, rank: int) -> ast.expr:
    """Add an axis to a subscript: `x[:, None][:, :, None]` reads better as `x[:, None, None]`."""
    kept = [True] * (rank - 1)
    if isinstance(node, ast.Subscript):
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(items) == rank - 1:
            kept, node = [isinstance(item, ast.Slice) for item in items], node.value
    return syntax.new_axes(node, [*kept[:axis], False, *kept[axis:]])


def _reshape(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    (operand,) = operands
    lanes = operation.result.type.lanes
    if not operand.shape:
        return operand
    node = materialise(operand, operation.operands[0].type)
    if not lanes:  # one element: its sum is itself
        dtype = operation.result.type.dtype
        return retyped(ValueText(syntax.call("tl.sum", node)), summed(dtype), dtype)
    return ValueText(syntax.call("tl.reshape", node, lanes), lanes)


def _permute(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    (operand,) = operands
    if not operand.shape:
        return operand
    dims = tuple(dim % len(operand.shape) for dim in operation.attribute("dims"))
    shape = tuple(operand.shape[dim] for dim in dims)
    if dims == tuple(range(len(dims))):
        return operand
    if dims == (1, 0):
        return ValueText(syntax.call("tl.trans", operand.node), shape)
    return ValueText(syntax.call("tl.permute", operand.node, dims), shape)


def _cat(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    """Join along a new first axis, which keeps elements in order; `tl.cat` may reorder them."""
    joined = syntax.call("tl.permute", syntax.call("tl.join", *whole(operation, operands)), (1, 0))
    lanes = operation.result.type.lanes
    return ValueText(syntax.call("tl.reshape", joined, lanes), lanes)


def _flip(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    axis, lanes = operation.attribute("axis"), operation.result.type.lanes
    if lanes[axis] == 1:  # stays where it is: `tl.flip` (Triton 3.6 to 3.9) takes no block of one element
        return operands[0]
    return ValueText(syntax.call("tl.flip", *whole(operation, operands), axis), lanes)


FUNCTIONS = {
    "full": _same,
    "broadcast": _same,
    "expand_dims": _expand_dims,
    "reshape": _reshape,
    "permute": _permute,
    "join": called(),
    "split": called(),
    "cat": _cat,
    "flip": _flip,
    "gather": called(axis=None),
}

"""Print matrix products: plain ones, those with an accumulator, and those that are too short for Triton."""

from __future__ import annotations

import ast

from ninetoothed import dtypes, ir
from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.context import EmitContext, ValueText
from ninetoothed.backends.triton.functions.values import dtype_node, materialise, retyped, whole
from ninetoothed.dtypes import DType


def _dot(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    """Print a product; what it is added to by itself where Triton's would have another type."""
    accumulator = operation.operands[2] if len(operation.operands) > 2 else None
    if accumulator is None or accumulator.type.dtype == _product_type(operation):
        return _product(context, operation, accumulator)
    product = _product(context, operation, None)
    summand = materialise(context.texts[accumulator], accumulator.type)
    return ValueText(syntax.binary("+", summand, product.node), product.shape)


def accumulated(context: EmitContext, operation: ir.Apply) -> ValueText | None:
    """Print `acc + dot(a, b)` as `tl.dot(a, b, acc)` where the product is used for nothing else."""
    for product, accumulator in (operation.operands[::-1], operation.operands):
        dot = context.analysis.producers.get(product)
        if not isinstance(dot, ir.Apply) or dot.function != "dot" or len(dot.operands) > 2:
            continue
        is_whole = context.texts[accumulator].shape == accumulator.type.lanes and not _is_small(dot)
        if context.analysis.is_inlined(product) and accumulator.type.dtype == _product_type(dot) and is_whole:
            return _product(context, dot, accumulator)
    return None


def _product(context: EmitContext, operation: ir.Apply, accumulator: ir.Value | None) -> ValueText:
    """Print `tl.dot`, with the accumulator that it adds to."""
    lhs, rhs = operation.operands[:2]
    wanted, result = _product_type(operation), operation.result.type
    a, b = (materialise(context.texts[value], value.type) for value in (lhs, rhs))
    acc = None if accumulator is None else materialise(context.texts[accumulator], accumulator.type)
    is_fused = accumulator is not None and accumulator.type.dtype == wanted
    if _is_small(operation):
        node = _small_product(a, b, operation, acc if is_fused else None)
    else:
        precision = operation.attribute("input_precision") if lhs.type.dtype == dtypes.float32 else None
        node = syntax.call(
            "tl.dot", a, b, *([acc] if is_fused else []), input_precision=precision,
            out_dtype=None if wanted == dtypes.float32 else dtype_node(wanted),
        )  # fmt: skip
    product = retyped(ValueText(node, result.lanes), wanted, result.dtype)
    if acc is None or is_fused:
        return product
    return ValueText(syntax.binary("+", acc, product.node), result.lanes)


def _product_type(operation: ir.Apply) -> DType:
    """Return the type in which Triton adds products up."""
    dtype = operation.operands[0].type.dtype
    if not dtype.is_floating:
        return dtypes.int32
    return dtypes.float64 if dtype == dtypes.float64 else dtypes.float32


def _is_small(operation: ir.Apply) -> bool:
    """Tell whether the inner dimension is too short for `tl.dot`: below 32 elements of one byte, or 16 others."""
    lhs = operation.operands[0].type
    return lhs.lanes[-1] < (32 if lhs.dtype.bits == 8 else 16)


def _small_product(a: ast.expr, b: ast.expr, operation: ir.Apply, accumulator: ast.expr | None) -> ast.expr:
    """Print `sum(a[:, None, :] * trans(b)[None, :, :], axis=2)`, exactly.

    Triton would turn a sum over the middle axis into a matrix product, and multiply in tf32.
    """
    lhs, rhs = operation.operands[:2]
    rank = len(lhs.type.lanes)
    dtype = dtype_node(_product_type(operation))
    if lhs.type.dtype != _product_type(operation):
        a, b = (syntax.method(node, "to", dtype) for node in (a, b))
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    a = syntax.new_axes(a, [True] * (rank - 1) + [False, True])
    b = syntax.new_axes(syntax.call("tl.permute", b, *swapped), [True] * (rank - 2) + [False, True, True])
    node = syntax.call("tl.sum", syntax.binary("*", a, b), axis=rank)
    return node if accumulator is None else syntax.binary("+", accumulator, node)


def _dot_scaled(context: EmitContext, operation: ir.Apply, operands: list[ValueText]) -> ValueText:
    lhs, lhs_scale, rhs, rhs_scale, *accumulator = whole(operation, operands)
    lhs_format, rhs_format = operation.attribute("formats")
    node = syntax.call("tl.dot_scaled", lhs, lhs_scale, lhs_format, rhs, rhs_scale, rhs_format, *accumulator)
    return ValueText(node, operation.result.type.lanes)


FUNCTIONS = {"dot": _dot, "dot_scaled": _dot_scaled}

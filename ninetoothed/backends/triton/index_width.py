"""Index width: offsets are of 32 bits, and of 64 into those tensors alone that are too long for that.

    x = tl.load(x_ptr + k * 4096 + pid * 1024 + tl.arange(0, 1024))
->  x = tl.load(x_ptr + tl.cast(k, tl.int64) * 4096 + pid.to(tl.int64) * 1024 + tl.arange(0, 1024))

The numbers of programs and of rounds are widened, and products with them follow. Sizes and strides of such tensors are
arguments of 64 bits already, unless they are known when compiling. Computed numbers are widened too; of fewer than 32
bits everywhere, since Triton multiplies in the type that they have:

    y = x.source[i, 1]    ->  y = tl.load(x_ptr + i.to(tl.int32) * 50 + 1)        i: of int8
"""

from __future__ import annotations

import ast

from ninetoothed import dtypes, ir
from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.context import EmitContext, ValueText
from ninetoothed.expr import Expr

_INT64 = syntax.name("tl.int64")


def widened(context: EmitContext, name: str) -> ast.expr:
    """Print an integer variable of the program, in 64 bits where it is a tensor."""
    node = context.variable(name)
    if name in context.program.axes:
        return syntax.method(node, "to", _INT64)
    # The counter of a single round may be a known number, which is no tensor.
    return syntax.call("tl.cast", node, _INT64) if context.depth_of_name(name) else node


def bound(context: EmitContext, value: ir.Value, wide: bool) -> ValueText:
    """Print a computed number of an expression in 32 bits at least; unsigned ones of as many get 64."""
    text, dtype = context.texts[value], value.type.dtype
    bits = 64 if wide or _is_long(value) else 32
    if text.constant is not None or (dtype.category == "int" and dtype.bits >= bits):
        return text
    return ValueText(syntax.call("tl.cast", text.node, syntax.name(f"tl.int{bits}")), text.shape)


def narrowed(node: ast.expr, e: Expr, bindings: ir.Bindings) -> ast.expr:
    """Print an expression in 32 bits where a computed number of 64 is a part of it."""
    is_long = any(_is_long(value) for name, value in bindings if name in e.variables)
    return syntax.call("tl.cast", node, syntax.name("tl.int32")) if is_long else node


def _is_long(value: ir.Value) -> bool:
    return value.type.dtype.bits == 64 or value.type.dtype == dtypes.uint32

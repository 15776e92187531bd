"""Index width: offsets are of 32 bits, and of 64 into those tensors alone that are too long for that.

    x = tl.load(x_ptr + k * 4096 + pid * 1024 + tl.arange(0, 1024))
->  x = tl.load(x_ptr + tl.cast(k, tl.int64) * 4096 + pid.to(tl.int64) * 1024 + tl.arange(0, 1024))

The numbers of programs and of rounds are widened, and products with them follow. Sizes and strides of such tensors are
arguments of 64 bits already, unless they are known when compiling.
"""

from __future__ import annotations

import ast

from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.context import EmitContext

_INT64 = syntax.name("tl.int64")


def widened(context: EmitContext, name: str) -> ast.expr:
    """Print an integer variable of the program, in 64 bits where it is a tensor."""
    node = context.variable(name)
    if name in context.program.axes:
        return syntax.method(node, "to", _INT64)
    # The counter of a single round may be a known number, which is no tensor.
    return syntax.call("tl.cast", node, _INT64) if context.depth_of_name(name) else node

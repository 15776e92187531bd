"""Print the primitives of `language.PRIMITIVES` in Triton: each by a small function or a row of a table."""

from __future__ import annotations

from collections.abc import Callable

from ninetoothed import ir
from ninetoothed.backends.triton.context import EmitContext, ValueText
from ninetoothed.backends.triton.functions import (
    division,
    elementwise,
    machine,
    pointers,
    products,
    reductions,
    shapes,
)
from ninetoothed.backends.triton.functions.values import dtype_node, materialise, typed

__all__ = ["dtype_node", "materialise", "text_of", "typed"]

FUNCTIONS: dict[str, Callable[[EmitContext, ir.Apply, list[ValueText]], ValueText]] = {
    **elementwise.FUNCTIONS,
    **division.FUNCTIONS,
    **shapes.FUNCTIONS,
    **reductions.FUNCTIONS,
    **products.FUNCTIONS,
    **pointers.FUNCTIONS,
    **machine.FUNCTIONS,
}


def text_of(context: EmitContext, operation: ir.Apply) -> ValueText:
    """Return the text of an application, with one result or with several (a tuple)."""
    function = FUNCTIONS.get(operation.function)
    if function is None:
        raise context.unsupported(f"`{operation.function}` has no translation to Triton", operation)
    return function(context, operation, [context.texts[value] for value in operation.operands])

"""Facts about operations and blocks that several passes ask for."""

from __future__ import annotations

from typing import TypeGuard

from ninetoothed import ir
from ninetoothed.language.primitive import Effect


def is_ordered(operation: ir.Operation) -> bool:
    """Tell whether an operation must stay where it is: it touches memory, has an effect, or holds blocks."""
    if isinstance(operation, ir.Apply):
        return operation.primitive.effect is not Effect.NONE
    return not isinstance(operation, ir.Constant | ir.ScalarArgument | ir.Index)


def is_fold(operation: ir.Apply) -> bool:
    """Tell whether an operation is a reduction or a scan, without a function of the user's."""
    return operation.primitive.folds and not operation.primitive.has_combine


def is_dot(operation: ir.Operation | None) -> TypeGuard[ir.Apply]:
    """Tell whether an operation is a matrix product."""
    return isinstance(operation, ir.Apply) and operation.function == "dot"


def producers(block: ir.Block) -> dict[ir.Value, ir.Operation]:
    """Return the operation that defines each value of a block, and of the blocks nested in it."""
    return {result: operation for operation in ir.walk(block) for result in ir.results(operation)}


def readers(block: ir.Block) -> dict[ir.Value, list[ir.Operation]]:
    """Return the operations that read each value of a block, yields of nested blocks aside."""
    found: dict[ir.Value, list[ir.Operation]] = {}
    for operation in ir.walk(block):
        for value in ir.reads(operation):
            found.setdefault(value, []).append(operation)
    return found

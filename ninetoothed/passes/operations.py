"""Facts about operations and blocks that several passes ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from ninetoothed import ir
from ninetoothed.dtypes import int1, int32
from ninetoothed.expr import Expr
from ninetoothed.ir.lanes import is_repetition
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


def unrepeated(value: ir.Value, defined_by: Mapping[ir.Value, ir.Operation]) -> ir.Value:
    """Return the value whose lanes a value repeats."""
    while is_repetition(producer := defined_by.get(value)):
        (value,) = producer.operands
    return value


def are_apart(first: ir.Access, second: ir.Access) -> bool:
    """Tell whether two accesses with the same lanes lie side by side, such as two subtiles of one tile."""
    counts = {lane.name: lane.count for lane in first.lanes}
    for one, other in zip(first.indices, second.indices, strict=True):
        lanes = one.variables & counts.keys()
        difference = one - other
        if difference.is_constant and abs(difference.constant) >= max((counts[name] for name in lanes), default=1):
            return True
    return False


def compared(function: str, a: Expr, b: Expr, bindings: ir.Bindings = ()) -> tuple[ir.Value, ir.Block]:
    """Compare two integers: the result, and the operations that compute it."""
    left, right, result = (ir.Value(ir.TileType(dtype)) for dtype in (int32, int32, int1))
    first, second = ir.Index(left, a, bindings=bindings), ir.Index(right, b, bindings=bindings)
    return result, (first, second, ir.Apply((result,), function, (left, right)))


def replaced(block: ir.Block, new: Mapping[ir.Operation, ir.Block]) -> ir.Block:
    """Put others for some operations of a block."""
    return tuple(each for operation in block for each in new.get(operation, (operation,)))


def readers(block: ir.Block) -> dict[ir.Value, list[ir.Operation]]:
    """Return the operations that read each value of a block, yields of nested blocks aside."""
    found: dict[ir.Value, list[ir.Operation]] = {}
    for operation in ir.walk(block):
        for value in ir.reads(operation):
            found.setdefault(value, []).append(operation)
    return found


@dataclass(kw_only=True)
class Inserter(ir.Rewriter):
    """Puts others for some operations, and after the definitions of values the operations that are to follow."""

    instead: Mapping[ir.Operation, ir.Operation]
    after: Mapping[ir.Value, Sequence[ir.Operation]]

    def operation(self, operation: ir.Operation) -> ir.Block:
        new = self.instead.get(operation) or self.rebuilt(operation)
        if isinstance(new, ir.Loop) and (first := self.following(new.arguments)):
            new = replace(new, body=(*first, *new.body))
        return (new, *self.following(ir.results(operation)))

    def following(self, values: tuple[ir.Value, ...]) -> ir.Block:
        return tuple(new for value in values for new in self.after.get(value, ()))

"""Tell which lanes of a result come from which lanes of an operand, in the variables of their axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeGuard

from ninetoothed.expr import Expr, Facts, const, var
from ninetoothed.ir.nodes import Apply, Operation
from ninetoothed.ir.values import Lane, TileType

# The lanes of a tile, by axis, in those of another; an axis that is missing is not told by them.
Told = dict[int, Expr]


def lane(type: TileType, axis: int) -> Expr:
    """Return the variable of a tile's axis; 0 where it has one lane."""
    return var(type.axes[axis].name) if type.lanes[axis] > 1 else const(0)


def with_lanes(facts: Facts, lanes: Iterable[Lane]) -> Facts:
    """Add the ranges of lanes to facts."""
    for each in lanes:
        facts = facts.bind(each.name, 0, each.count - 1)
    return facts


def forwards(operation: Apply, operand: int = 0, result: int = 0) -> Told:
    """Tell the lanes of an operand by those of a result."""
    source, target = operation.operands[operand].type, operation.results[result].type
    return _told(operation, source, target, operation.axes.kept(operand, result))


def backwards(operation: Apply, operand: int = 0, result: int = 0) -> Told:
    """Tell the lanes of a result by those of an operand."""
    source, target = operation.operands[operand].type, operation.results[result].type
    kept = operation.axes.kept(operand, result)
    return _told(operation, target, source, {other: axis for axis, other in kept.items()})


def _told(operation: Apply, own: TileType, other: TileType, kept: Mapping[int, int]) -> Told:
    told = {axis: lane(other, place) for axis, place in kept.items() if own.lanes[axis] == other.lanes[place]}
    if operation.primitive.moves is None:
        return told
    lanes = [lane(other, axis) for axis in range(len(other.lanes))]
    return operation.primitive.moves(own.lanes, lanes, other.lanes, dict(operation.attributes)) | told


def is_repetition(operation: Operation | None) -> TypeGuard[Apply]:
    """Tell whether an operation repeats the lanes of its operand, which costs nothing wherever it is done."""
    if not isinstance(operation, Apply) or not operation.primitive.moves_lanes or operation.primitive.moves is not None:
        return False
    axes = [*operation.axes.kept().values()]
    return axes == sorted(axes)

"""Find the elements that an expression names: what an assignment stores to, and what an atomic function changes."""

from __future__ import annotations

import ast
from typing import Any

from ninetoothed.frontend import memory
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.indexing import check_slices, index, innermost_indices, is_elementwise, source_indices
from ninetoothed.frontend.operators import is_dynamic, is_number, operand
from ninetoothed.frontend.regions import write
from ninetoothed.frontend.values import Literal, Scope, SourceRef, TileRef, shown
from ninetoothed.frontend.variables import starred
from ninetoothed.ir import Access


def target(context: TraceContext, scope: Scope, node: ast.expr) -> Any:
    """Return the access of the elements of a parameter that an expression names, or the value of any other."""
    if isinstance(node, ast.Subscript):
        owner = owner_of(context, scope, node.value)
        indices = evaluate_indices(context, scope, node.slice)
        is_parameter = isinstance(owner, SourceRef | TileRef)
        return element(context, owner, indices) if is_parameter else index(context, owner, indices)
    owner = owner_of(context, scope, node)
    return memory.target(context, owner) if isinstance(owner, TileRef) else owner


def element(context: TraceContext, owner: SourceRef | TileRef, indices: tuple) -> Access:
    """Return the access of elements of a parameter or of its source."""
    if isinstance(owner, SourceRef):
        return memory.source_access(context, owner, source_indices(context, owner, indices))
    if memory.is_hierarchical(context, owner):
        return memory.target(context, index(context, owner, indices))
    check_slices(context, indices)
    return memory.target(
        context, owner, innermost_indices(context, owner, indices) if is_elementwise(indices) else None
    )


def owner_of(context: TraceContext, scope: Scope, node: ast.expr) -> Any:
    """Return the object whose elements are changed. A parameter gives its tile, and forgets the value assigned last."""
    cell = scope.find(node.id) if isinstance(node, ast.Name) else None
    if cell is None or cell.tile is None:
        return context.evaluate(scope, node)
    if cell.value is not None:
        write(context, cell, None)
    return cell.tile


def evaluate_indices(context: TraceContext, scope: Scope, node: ast.expr) -> tuple:
    """Evaluate a subscript: one index for each item."""

    def evaluate(item: ast.expr) -> Any:
        if isinstance(item, ast.Slice):
            parts = (item.lower, item.upper, item.step)
            return slice(*(None if p is None else context.evaluate(scope, p) for p in parts))
        index = operand(context, context.evaluate(scope, item))
        return Literal(index) if _is_literal(item) else index

    indices = starred(context, scope, node.elts if isinstance(node, ast.Tuple) else [node], evaluate)
    return indices[0] if len(indices) == 1 and isinstance(indices[0], tuple) else tuple(indices)


def _is_literal(node: ast.expr) -> bool:
    """Tell whether an expression is a whole number as it is written, with a sign or without."""
    number = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd) else node
    return isinstance(number, ast.Constant) and type(number.value) is int


def store_element(context: TraceContext, owner: Any, indices: tuple, value: Any) -> None:
    """Store to elements of a parameter or of its source."""
    if isinstance(owner, tuple | dict):
        raise context.error(
            "an item of a list or dict cannot be assigned: it stays what it was made of; give each tile a name of its"
            " own, or make another list"
        )
    if not isinstance(owner, SourceRef | TileRef):
        raise context.error("only elements of parameters can be assigned; build a new tile with `ntl.where` instead")
    name = repr(context.definition.parameters[owner.parameter].name)
    value = storable(context, f"the source of {name}" if isinstance(owner, SourceRef) else name, value)
    memory.write(context, element(context, owner, indices), value)


def storable(context: TraceContext, what: str, value: Any) -> Any:
    """Return a value that can be stored; a handle on a tile is loaded."""
    value = operand(context, value)
    if not is_dynamic(value) and not is_number(value):
        raise context.error(f"{what} takes tiles and numbers, not {shown(value)}; a name of its own holds anything")
    return value

"""Trace branches: of a known condition the one that is taken, else both."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ninetoothed import ir
from ninetoothed.frontend.block_arguments import convert, define_results, join, materialise, same, type_of
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.operators import is_dynamic, operand, scalar, truth
from ninetoothed.frontend.regions import region, write
from ninetoothed.frontend.values import UNDEFINED, Cell, Scope
from ninetoothed.frontend.variables import snapshot
from ninetoothed.ir import Value
from ninetoothed.ir.effects import has_effect

_WHERE = "choose element by element with `ntl.where(condition, a, b)`, or reduce the condition, say with `ntl.max`"


@dataclass(frozen=True, eq=False)
class _Branch:
    """A block that was traced by itself, the values of variables before and after it, and the tiles it read."""

    operations: list[ir.Operation]
    write_log: dict[Cell, Any]
    ends: dict[Cell, Any]
    loads: dict

    @property
    def has_effect(self) -> bool:
        """Tell whether the block assigns a variable from before it, stores, prints or the like."""
        assigns = any(before is not UNDEFINED for before in self.write_log.values())
        return assigns or any(map(has_effect, self.operations))


def _traced(context: TraceContext, body: Callable[[], Any]) -> _Branch:
    with region(context) as (operations, write_log), context.conditionally():
        body()
        return _Branch(operations, write_log, {cell: cell.value for cell in write_log}, dict(context.loads))


def if_(context: TraceContext, scope: Scope, node: ast.If) -> Any:
    """Trace an `if`: of a known condition the branch that is taken, else both."""
    location = context.builder.location
    condition = operand(context, context.evaluate(scope, node.test))
    if not is_dynamic(condition):
        return context.run(scope, node.body if condition else node.orelse)
    context.builder.location = scope.parsed.location(node.test)
    condition = scalar(context, truth(context, condition), "the condition of `if`", _WHERE)
    context.builder.location = location
    branches = [_traced(context, partial(context.run, scope, body)) for body in (node.body, node.orelse)]
    _branch(context, condition, branches, location)
    return None


def choose(
    context: TraceContext, condition: Value, sides: Iterable[Callable[[], Any]], pick: Callable[..., Any]
) -> Any:
    """Choose one of two expressions by a condition known at run time.

    Both are computed and `pick` chooses; but a side with an effect runs only where it is taken, as a branch of an `if`.
    """
    chosen, location = Cell("chosen", UNDEFINED), context.builder.location
    branches = [_side(context, side, chosen) for side in sides]
    if not any(branch.has_effect for branch in branches):
        return pick(*(branch.ends[chosen] for branch in branches))
    condition = truth(context, condition)
    if any(lanes != 1 for lanes in condition.type.lanes):
        raise context.error(
            "one side of this choice stores, assigns or prints something, and would for every element: the condition is"
            " a tile; do that before, and choose between what it gives"
        )
    _branch(context, scalar(context, condition, "a condition"), branches, location)
    return chosen.value


def _side(context: TraceContext, side: Callable[[], Any], chosen: Cell) -> _Branch:
    """Trace a side of a choice into a variable; without an effect it is computed at once."""
    branch = _traced(context, lambda: write(context, chosen, snapshot(context, side())))
    if branch.has_effect:
        return branch
    for operation in branch.operations:
        context.builder.emit(operation)
    context.loads = branch.loads
    return replace(branch, operations=[])


def _branch(
    context: TraceContext, condition: Value, branches: list[_Branch], location: ir.SourceLocation | None
) -> None:
    """Go on after two branches of which one is taken: variables hold what either leaves in them."""
    entry = {**branches[1].write_log, **branches[0].write_log}
    types = {}
    write_log: dict[Cell, Any] = {}
    for cell, before in entry.items():
        ends = [branch.ends.get(cell, before) for branch in branches]
        if same(*ends):
            write(context, cell, ends[0])
        elif any(end is UNDEFINED for end in ends):
            write(context, cell, UNDEFINED)
        else:
            write_log[cell] = before
            materialised = [_close(context, branch, cell, before) for branch in branches]
            types[cell] = join(context, cell, *(type_of(context, value) for value in materialised))
            for branch, value in zip(branches, materialised, strict=True):
                branch.ends[cell] = value
    yields = []
    for branch in branches:
        with context.builder.block(branch.operations):
            yields.append(tuple(v for cell, type in types.items() for v in convert(context, branch.ends[cell], type)))
    then, orelse = (branch.operations for branch in branches)
    results = define_results(context, types, write_log, then, orelse)
    context.builder.location = location
    outcomes = ir.Outcome.of(*yields, results)
    context.builder.emit(ir.If(condition, tuple(then), tuple(orelse), outcomes, location=location))


def _close(context: TraceContext, branch: _Branch, cell: Cell, before: Any) -> Any:
    """Return the value of a variable at the end of a branch, loaded there if it is still in memory."""
    outer, context.loads = context.loads, branch.loads
    with context.builder.block(branch.operations):
        value = materialise(context, cell, branch.ends.get(cell, before))
    context.loads = outer
    return value

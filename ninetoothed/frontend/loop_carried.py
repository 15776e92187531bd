"""Trace loops that stay loops: find their loop-carried variables, and the types that hold these.

A body is traced once to see which variables it assigns, and then with those variables as arguments of the operation,
until their types stop widening. The operations of all rounds but the last are discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ninetoothed import ir
from ninetoothed.effects import may_write
from ninetoothed.errors import ApplicationError
from ninetoothed.frontend import memory
from ninetoothed.frontend.block_arguments import (
    convert,
    define_results,
    equal_types,
    fresh,
    join,
    materialise,
    same,
    type_of,
)
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.operators import operand
from ninetoothed.frontend.regions import region, write
from ninetoothed.frontend.values import UNDEFINED, Cell, TileRef
from ninetoothed.ir import TileType, Value

# How often a body is traced at most: types widen, and loop-carried variables are found, a few times.
MAX_ROUNDS = 32


def _is_loop_carried(before: Any, after: Any) -> bool:
    """Tell whether a variable is loop-carried: it changes, and is usable both before and after."""
    return before is not UNDEFINED and after is not UNDEFINED and not same(before, after)


def _loop_carried_types(
    context: TraceContext, body: Callable[[], Any], variable: str | None
) -> tuple[dict[Cell, Any], bool]:
    """Find the loop-carried variables of a body with their types, and whether it stores.

    A variable that is neither a number nor a tile cannot be loop-carried. If the body assigns it before it reads it, it
    is local to the body, and undefined after the loop.
    """
    types, untyped, stores = _trace_once(context, body, variable)
    if not untyped:
        return types, stores
    for cell in untyped:
        write(context, cell, UNDEFINED)
    try:
        types, _, stores = _trace_once(context, body, variable)
        return types, stores
    except ApplicationError:
        for cell, ends in untyped.items():
            join(context, cell, *ends)
        raise


def _trace_once(
    context: TraceContext, body: Callable[[], Any], variable: str | None
) -> tuple[dict[Cell, Any], dict[Cell, tuple], bool]:
    """Trace a body once.

    Returns the types of the variables that it changes, the values before and after of those that have no type, and
    whether it stores.
    """
    with region(context) as (operations, write_log):
        body()
        after = {cell: cell.value for cell in write_log}
        new_types = {cell: type_of(context, _in_block(context, cell, value)) for cell, value in after.items()}
    stores = may_write(operations)
    if stores:
        context.forget_loads()
    else:
        _load_before(context, operations, variable)
    types, untyped = {}, {}
    for cell, before in write_log.items():
        if _is_loop_carried(before, after[cell]):
            ends = _entry_type(context, cell, before), new_types[cell]
            if all(isinstance(end, TileType | tuple) for end in ends) or ends[0] == ends[1]:
                types[cell] = join(context, cell, *ends)
            else:
                untyped[cell] = ends
    return types, untyped, stores


def _load_before(context: TraceContext, operations: Iterable[ir.Operation], variable: str | None) -> None:
    """Load tiles before a loop without stores, if every round would load them again.

    for k: q = load(Q); ...   ->   q = load(Q); for k: ...
    """
    nested = tuple(ir.walk(tuple(operations)))
    inside = {operation.variable for operation in nested if isinstance(operation, ir.For)} | {variable}
    made = {result for operation in nested for result in ir.results(operation)}
    for operation in nested:
        if isinstance(operation, ir.Load):
            place = operation.access
            names = {name for e in place.expressions for name in e.variables}
            if not names & inside and not any(value in made for _, value in place.bindings):
                memory.load_at(context, place, operation.result.hint)


def _in_block(context: TraceContext, cell: Cell, value: Any) -> Any:
    return value if value is UNDEFINED else materialise(context, cell, value)


def _entry_type(context: TraceContext, cell: Cell, before: Any) -> Any:
    if before is None and cell.tile is not None:
        scalar_argument = context.argument(cell.tile.parameter).role == "scalar"
        return memory.load(context, cell.tile).type if scalar_argument else memory.access(context, cell.tile).type
    return type_of(context, operand(context, before) if isinstance(before, TileRef) else before)


@dataclass(frozen=True, eq=False)
class TracedLoop:
    """One traced round of a loop, with an argument for each loop-carried variable.

    types: the types of the loop-carried variables.
    inside: their values before the loop, at the start and at the end of a round.
    body: the operations of the round.
    returned: the result of the traced function.
    write_log: the values of all assigned variables before the loop.
    """

    types: dict[Cell, Any]
    inside: tuple[Iterable[Value], Iterable[Value], Iterable[Value]]
    body: ir.Block
    returned: Any
    write_log: dict[Cell, Any]

    def leave(self, context: TraceContext) -> tuple[ir.Carried, ...]:
        """Give the variables their values after the loop, and return what it carries."""
        return ir.Carried.of(*self.inside, define_results(context, self.types, self.write_log, self.body))


def loop(context: TraceContext, body: Callable[[], Any], variable: str | None = None) -> TracedLoop:
    """Trace a loop body until the types of its variables settle."""
    types, stores = _loop_carried_types(context, body, variable)
    for _ in range(MAX_ROUNDS):
        initial = _values_of(context, types)
        if stores:
            context.forget_loads()
        arguments: list[Value] = []
        with region(context) as (operations, write_log):
            for cell, type in types.items():
                held, values = fresh(context, cell, type)
                write(context, cell, held)
                arguments.extend(values)
            returned = body()
            widened = _widened(context, types, write_log)
            # A number that seemed never to change may have hidden a store: what was loaded before it is old.
            hid_store = not stores and may_write(operations)
            is_final = widened.keys() == types.keys() and all(equal_types(widened[c], types[c]) for c in types)
            if is_final and not hid_store:
                inside = initial, arguments, _values_of(context, types)
                return TracedLoop(types, inside, tuple(operations), returned, write_log)
        types, stores = widened, stores or hid_store
    raise context.error(
        "the types of what this loop carries from one round to the next do not settle; give each variable the type that"
        " it ends with before the loop, say with `.to`"
    )


def _values_of(context: TraceContext, types: dict[Cell, Any]) -> tuple[Value, ...]:
    """Return the present values of variables, converted to these types."""
    held = ((materialise(context, cell, cell.value), type) for cell, type in types.items())
    return tuple(value for item, type in held for value in convert(context, item, type))


def _widened(context: TraceContext, types: dict[Cell, Any], write_log: dict[Cell, Any]) -> dict[Cell, Any]:
    """Widen types to hold the variables' values at the end of a round, too."""
    widened = {}
    for cell, type in types.items():
        end = materialise(context, cell, cell.value)
        widened[cell] = join(context, cell, type, type_of(context, end))
    # A variable that looked unchanged when first traced may take over what another carries: a, b = b, a + b.
    for cell, before in write_log.items():
        if cell not in types and _is_loop_carried(before, cell.value):
            end = type_of(context, materialise(context, cell, cell.value))
            widened[cell] = join(context, cell, _entry_type(context, cell, before), end)
    return widened

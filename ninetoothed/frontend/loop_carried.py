"""Trace loops that stay loops: find their loop-carried variables, and the types that hold these.

A body is traced once to see which variables it assigns, and then with those variables as arguments of the operation,
until their types stop widening. The operations of all rounds but the last are discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ninetoothed import ir
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
from ninetoothed.ir.effects import may_write

# How often a body is traced at most: types widen, and loop-carried variables are found, a few times.
MAX_ROUNDS = 32


def _is_loop_carried(before: Any, after: Any) -> bool:
    """Tell whether a variable is loop-carried: it changes, and is usable both before and after."""
    return before is not UNDEFINED and after is not UNDEFINED and not same(before, after)


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


def _entry_type(context: TraceContext, cell: Cell, before: Any) -> Any:
    if before is None and cell.tile is not None:
        scalar_argument = context.argument(cell.tile.parameter).role == "scalar"
        return memory.load(context, cell.tile).type if scalar_argument else memory.access(context, cell.tile).type
    return type_of(context, operand(context, before) if isinstance(before, TileRef) else before)


@dataclass(frozen=True, eq=False)
class TracedLoop:
    """One traced round of a loop, with an argument for each loop-carried variable.

    types: the types of the loop-carried variables.
    inside: their values before the loop, at the start and, once their types have settled, at the end of a round.
    body: the operations of the round.
    returned: the result of the traced function.
    write_log: the values of all assigned variables before the loop.
    widened: the types that hold what the variables have at the end of the round, too.
    untyped: the types before the loop and after the round of those that no type holds.
    """

    types: dict[Cell, Any]
    inside: tuple[Iterable[Value], Iterable[Value], Iterable[Value]]
    body: ir.Block
    returned: Any
    write_log: dict[Cell, Any]
    widened: dict[Cell, Any]
    untyped: dict[Cell, tuple]

    def leave(self, context: TraceContext) -> tuple[ir.Carried, ...]:
        """Give the variables their values after the loop, and return what it carries."""
        results = define_results(context, self.types, self.write_log, self.body)
        return () if context.is_sketch else ir.Carried.of(*self.inside, results)


def loop(context: TraceContext, body: Callable[[], Any], variable: str | None = None) -> TracedLoop:
    """Trace a loop body until the types of its variables settle."""
    traced = _first_round(context, body)
    if context.is_sketch and all(isinstance(traced.write_log[cell], Value) for cell in traced.widened):
        return replace(traced, types=traced.widened)  # Tiles decide on nothing: another round would be like it.
    stores = may_write(traced.body)
    if stores:
        context.forget_loads()
    else:
        _load_before(context, traced.body, variable)
    for _ in range(MAX_ROUNDS):
        known, did_store = traced.widened, stores
        traced = _round(context, body, known, stores)
        _raise_for(context, traced.untyped)
        # A number that seemed never to change may have hidden a store: what was loaded before it is old.
        stores = stores or may_write(traced.body)
        if _are_equal(traced.widened, known) and stores == did_store:
            return traced
    raise context.error(
        "the types of what this loop carries from one round to the next do not settle; give each variable the type that"
        " it ends with before the loop, say with `.to`"
    )


def _first_round(context: TraceContext, body: Callable[[], Any]) -> TracedLoop:
    """Trace a body to see which variables it changes.

    A variable that is neither a number nor a tile cannot be loop-carried. If the body assigns it before it reads it, it
    is local to the body, and undefined after the loop.
    """
    traced = _round(context, body, {})
    for cell in traced.untyped:
        write(context, cell, UNDEFINED)
    try:
        return _round(context, body, {}) if traced.untyped else traced
    except ApplicationError:
        _raise_for(context, traced.untyped)
        raise


def _raise_for(context: TraceContext, untyped: dict[Cell, tuple]) -> None:
    for cell, ends in untyped.items():
        join(context, cell, *ends)


def _round(context: TraceContext, body: Callable[[], Any], types: dict[Cell, Any], stores: bool = False) -> TracedLoop:
    """Trace a body once, with arguments for variables of these types. stores: whether an earlier round stores."""
    initial, location = _values_of(context, types), context.builder.location
    if stores:
        context.forget_loads()
    arguments: list[Value] = []
    widened: dict[Cell, Any] = {}
    untyped: dict[Cell, tuple] = {}
    with region(context) as (operations, write_log):
        for cell, type in types.items():
            held, values = fresh(context, cell, type)
            write(context, cell, held)
            arguments.extend(values)
        returned = body()
        context.builder.location = location
        for cell, before in write_log.items():
            # A variable that looked unchanged when first traced may take over what another carries: a, b = b, a + b.
            if cell in types or _is_loop_carried(before, cell.value):
                end = type_of(context, materialise(context, cell, cell.value))
                ends = types[cell] if cell in types else _entry_type(context, cell, before), end
                if all(isinstance(each, TileType | tuple) for each in ends) or ends[0] == ends[1]:
                    widened[cell] = join(context, cell, *ends)
                else:
                    untyped[cell] = ends
        final = _values_of(context, types) if _are_equal(widened, types) else ()
    return TracedLoop(types, (initial, arguments, final), tuple(operations), returned, write_log, widened, untyped)


def _are_equal(a: dict[Cell, Any], b: dict[Cell, Any]) -> bool:
    return a.keys() == b.keys() and all(equal_types(a[cell], b[cell]) for cell in a)


def _values_of(context: TraceContext, types: dict[Cell, Any]) -> tuple[Value, ...]:
    """Return the present values of variables, converted to these types."""
    held = ((materialise(context, cell, cell.value), type) for cell, type in types.items())
    return tuple(value for item, type in held for value in convert(context, item, type))

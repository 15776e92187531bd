"""Find the loop-carried variables of a loop, those that a branch changes, and the types that hold them.

A body is traced once to see which variables it assigns, and then with those variables as arguments of the operation,
until their types stop widening. What was traced before the last round is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ninetoothed import dtypes, ir
from ninetoothed.effects import may_write
from ninetoothed.errors import ApplicationError
from ninetoothed.expr import Expr
from ninetoothed.frontend import memory, shapes
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.numbers import number_type, numeric
from ninetoothed.frontend.operators import is_number, operand
from ninetoothed.frontend.shapes import extents_of, tile_type
from ninetoothed.frontend.values import UNDEFINED, Cell, KnownCount, OpenCount, Scope, TileRef, shown
from ninetoothed.ir import TileType, Value

# Types widen and variables are found a few times at most.
MAX_ROUNDS = 32


def write(context: TraceContext, cell: Cell, value: Any) -> None:
    """Assign a variable; every open region remembers what it held on entry."""
    for depth, write_log in enumerate(context.write_logs):
        write_log.setdefault(cell, cell.value if depth >= cell.born else UNDEFINED)
    cell.value = value


@contextmanager
def region(context: TraceContext) -> Iterator[tuple[list[ir.Operation], dict[Cell, Any]]]:
    """Trace a block that runs conditionally; variables are as before once it ends. Gives (operations, write_log)."""
    write_log: dict[Cell, Any] = {}
    loads, location = dict(context.loads), context.builder.location
    context.write_logs.append(write_log)
    try:
        with context.builder.block() as operations:
            yield operations, write_log
    finally:
        context.write_logs.pop()
        for cell, value in write_log.items():
            cell.value = value
        context.loads, context.builder.location = loads, location


def computed(context: TraceContext, trace: Callable[[], Any]) -> Any:
    """Run a function that only computes with known numbers; its loops run as in Python.

    Raises `EmissionForbidden` at its first operation for the kernel, and then all is as before.
    """
    depth, context.builder.is_closed = context.depth, True
    try:
        with region(context) as (_, write_log):
            result = trace()
            ends = {cell: cell.value for cell in write_log}
    finally:
        context.depth, context.builder.is_closed = depth, False
    for cell, value in ends.items():
        write(context, cell, value)
    return result


def in_runtime_branch(context: TraceContext, scope: Scope) -> bool:
    """Tell whether a region was opened since the function of `scope` began."""
    return len(context.write_logs) > scope.depth


def _is_loop_carried(before: Any, after: Any) -> bool:
    """Tell whether a variable is loop-carried: not unchanged, local to the body, or unusable after it."""
    return before is not UNDEFINED and after is not UNDEFINED and not same(before, after)


def same(a: Any, b: Any) -> bool:
    """Tell whether two values of a variable are known to be equal."""
    if isinstance(a, Value) or isinstance(b, Value):
        return a is b
    classes = (int if isinstance(v, KnownCount) else Expr if isinstance(v, OpenCount) else type(v) for v in (a, b))
    return len(set(classes)) == 1 and a == b


def materialise(context: TraceContext, cell: Cell, value: Any) -> Any:
    """Return the value of a variable, loaded where it is still in memory."""
    if value is None and cell.tile is not None:
        return memory.load(context, cell.tile)
    if isinstance(value, tuple):
        return tuple(materialise(context, cell, item) for item in value)
    return operand(context, value)


def type_of(context: TraceContext, value: Any) -> Any:
    """Return the type that holds a value; of a tuple those of its items."""
    if isinstance(value, tuple):
        return tuple(type_of(context, item) for item in value)
    if isinstance(value, Value):
        return value.type
    if isinstance(value, Expr):
        return TileType(context.builder.index_type)
    if is_number(value):
        return TileType(number_type(value))
    return value


def join(context: TraceContext, cell: Cell, a: Any, b: Any) -> Any:
    """Return the type that holds values of both types."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(join(context, cell, x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, TileType) and isinstance(b, TileType):
        pointers = [t for t in (a, b) if isinstance(t.dtype, dtypes.PointerType)]
        dtype = pointers[0].dtype if pointers else dtypes.promote(numeric(a.dtype), numeric(b.dtype))
        what = f"{cell.name!r} changes its shape from one path to the other: "
        return tile_type(dtype, shapes.broadcast(extents_of(a), extents_of(b), context.builder.require, what))
    if a == b:
        return a
    raise context.error(
        f"{cell.name!r} is {_described(a)} on one path and {_described(b)} on the other, and the choice is made at run"
        " time; let it be a number or a tile on both, before a loop that assigns it too, or give what only one path"
        " needs a name of its own"
    )


def _described(type: Any) -> str:
    return shown(Value(type) if isinstance(type, TileType) else type)


def _leaves(structure: Any) -> list:
    if isinstance(structure, tuple):
        return [leaf for item in structure for leaf in _leaves(item)]
    return [structure]


def _rebuild(structure: Any, leaves: Iterator[Any]) -> Any:
    if isinstance(structure, tuple):
        return tuple(_rebuild(item, leaves) for item in structure)
    return next(leaves)


def convert(context: TraceContext, value: Any, type: Any) -> list:
    """Convert the leaves of a value to the leaves of `type`."""
    result = []
    for item, target in zip(_leaves(value), _leaves(type), strict=True):
        if isinstance(target, TileType):
            converted = context.builder.value(item, target.dtype)
            result.append(context.builder.broadcast_to(converted, extents_of(target)))
    return result


def _fresh(context: TraceContext, cell: Cell, type: Any) -> tuple[Any, list[Value]]:
    """Make the arguments of an operation for a variable; return what the variable then holds, and them."""
    values, items = [], []
    for leaf in _leaves(type):
        if isinstance(leaf, TileType):
            values.append(Value(leaf, cell.name))
            items.append(values[-1])
        else:
            items.append(leaf)
    return _rebuild(type, iter(items)), values


def _equal_types(a: Any, b: Any) -> bool:
    if isinstance(a, TileType) and isinstance(b, TileType):
        return a.dtype == b.dtype and a.lanes == b.lanes
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_equal_types(x, y) for x, y in zip(a, b, strict=True))
    return a == b


def _loop_carried_types(
    context: TraceContext, body: Callable[[], Any], variable: str | None
) -> tuple[dict[Cell, Any], bool]:
    """Find the variables that a body changes, the types that hold them before and after, and whether it stores.

    A variable that holds neither a number nor a tile cannot be loop-carried: it is local where the body assigns it
    before it reads it, and is undefined after the loop.
    """
    types, apart, do_store = _types_of_changes(context, body, variable)
    if not apart:
        return types, do_store
    for cell in apart:
        write(context, cell, UNDEFINED)
    try:
        types, _, do_store = _types_of_changes(context, body, variable)
        return types, do_store
    except ApplicationError:
        for cell, ends in apart.items():
            join(context, cell, *ends)
        raise


def _types_of_changes(
    context: TraceContext, body: Callable[[], Any], variable: str | None
) -> tuple[dict[Cell, Any], dict[Cell, tuple], bool]:
    """Trace a body once.

    Gives the types of the variables that it changes, before and after of those that have none, and whether it stores.
    """
    with region(context) as (operations, write_log):
        body()
        after = {cell: cell.value for cell in write_log}
        new_types = {cell: type_of(context, _in_block(context, cell, value)) for cell, value in after.items()}
    do_store = may_write(operations)
    if do_store:
        context.forget_loads()
    else:
        _load_before(context, operations, variable)
    types, apart = {}, {}
    for cell, before in write_log.items():
        if _is_loop_carried(before, after[cell]):
            ends = _entry_type(context, cell, before), new_types[cell]
            if all(isinstance(end, TileType | tuple) for end in ends) or ends[0] == ends[1]:
                types[cell] = join(context, cell, *ends)
            else:
                apart[cell] = ends
    return types, apart, do_store


def _load_before(context: TraceContext, operations: Iterable[ir.Operation], variable: str | None) -> None:
    """Read tiles that every round of a loop without stores would read again.

    for k: q = load(Q); ...   ->   q = load(Q); for k: ...
    """
    nested = tuple(ir.walk(tuple(operations)))
    inside = {operation.variable for operation in nested if isinstance(operation, ir.For)} | {variable}
    made = {result for operation in nested for result in ir.results(operation)}
    for operation in nested:
        if isinstance(operation, ir.Load):
            place = operation.access
            guarded = (e for guard in place.guards for e in (guard.index, guard.size))
            names = {name for e in (*place.indices, *guarded) for name in e.variables}
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
    initial, arguments, yields: their values before the loop, at the start and at the end of a round.
    operations: the operations of the round.
    returned: the result of the traced function.
    write_log: the values of all assigned variables before the loop.
    """

    types: dict[Cell, Any]
    initial: tuple[Value, ...]
    arguments: tuple[Value, ...]
    yields: tuple[Value, ...]
    operations: list[ir.Operation]
    returned: Any
    write_log: dict[Cell, Any]


def loop(context: TraceContext, body: Callable[[], Any], variable: str | None = None) -> TracedLoop:
    """Trace a loop body until the types of its variables settle."""
    types, do_store = _loop_carried_types(context, body, variable)
    for _ in range(MAX_ROUNDS):
        initial = _values_of(context, types)
        if do_store:
            context.forget_loads()
        arguments: list[Value] = []
        with region(context) as (operations, write_log):
            for cell, type in types.items():
                held, values = _fresh(context, cell, type)
                write(context, cell, held)
                arguments.extend(values)
            returned = body()
            widened = _widened(context, types, write_log)
            # A number that seemed never to change may have hidden a store, after which what was loaded is old.
            hid_store = not do_store and may_write(operations)
            is_settled = widened.keys() == types.keys() and all(_equal_types(widened[c], types[c]) for c in types)
            if is_settled and not hid_store:
                yields = _values_of(context, types)
                return TracedLoop(types, initial, tuple(arguments), yields, operations, returned, write_log)
        types, do_store = widened, do_store or hid_store
    raise context.error("the types of what this loop carries from one round to the next do not settle")


def _values_of(context: TraceContext, types: dict[Cell, Any]) -> tuple[Value, ...]:
    """Return the present values of variables, converted to these types."""
    held = ((materialise(context, cell, cell.value), type) for cell, type in types.items())
    return tuple(value for item, type in held for value in convert(context, item, type))


def _widened(context: TraceContext, types: dict[Cell, Any], write_log: dict[Cell, Any]) -> dict[Cell, Any]:
    """Return the types that hold what variables have at the end of a round, too."""
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


def finish(
    context: TraceContext, types: dict[Cell, Any], write_log: dict[Cell, Any], *blocks: Iterable[ir.Operation]
) -> tuple[Value, ...]:
    """Let variables hold the results of an operation; those that only its body knows are undefined after it."""
    results: list[Value] = []
    for cell, before in write_log.items():
        if cell in types:
            held, values = _fresh(context, cell, types[cell])
            write(context, cell, held)
            results.extend(values)
        elif before is UNDEFINED:
            write(context, cell, UNDEFINED)
    if any(may_write(block) for block in blocks):
        context.forget_loads()
    return tuple(results)

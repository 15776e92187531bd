"""Loops and branches: which variables they carry, of which types, and the structured operations that say so.

A body is traced once to see which variables it assigns, and then with those variables as arguments of the operation,
until their types stop widening. What was traced before the last round is thrown away.
"""

from __future__ import annotations

import ast
import math
from contextlib import contextmanager
from typing import Any

from ninetoothed import dtypes, ir
from ninetoothed.expr import Expr, as_expr, divisor, var
from ninetoothed.frontend import memory, shapes
from ninetoothed.frontend.builder import number_type
from ninetoothed.frontend.context import Context
from ninetoothed.frontend.operators import integer, is_dynamic, is_number, operand, scalar, truth
from ninetoothed.frontend.shapes import extents_of, tile_type
from ninetoothed.frontend.values import UNDEFINED, Cell, Frame, TileRef
from ninetoothed.ir import TileType, Value
from ninetoothed.language import FUNCTIONS

MAX_UNROLLED = 4096


def write(context: Context, cell: Cell, value: Any) -> None:
    """Assign a variable; every open region remembers what it held on entry."""
    for journal in context.journals:
        journal.setdefault(cell, cell.value)
    cell.value = value


@contextmanager
def region(context: Context):
    """Trace a block that runs conditionally; variables are as before once it ends. Gives (operations, journal)."""
    journal: dict[Cell, Any] = {}
    loads, location = dict(context.loads), context.builder.location
    context.journals.append(journal)
    try:
        with context.builder.block() as operations:
            yield operations, journal
    finally:
        context.journals.pop()
        for cell, value in journal.items():
            cell.value = value
        context.loads, context.builder.location = loads, location


def _stores(operations) -> bool:
    effects = ("store_pointer", "atomic_")
    return any(
        isinstance(operation, ir.Store) or (isinstance(operation, ir.Apply) and operation.function.startswith(effects))
        for operation in ir.walk(tuple(operations))
    )


def _forget_if_stored(context: Context, *blocks) -> None:
    if any(_stores(block) for block in blocks):
        context.loads = {key: value for key, value in context.loads.items() if key[0] == "scalar"}


def in_runtime_branch(context: Context, frame: Frame) -> bool:
    """Whether a region was opened since the function of `frame` began."""
    return len(context.journals) > frame.depth


# -- types of carried variables --------------------------------------------------------------------


def _is_carried(context: Context, cell: Cell, before: Any, after: Any) -> bool:
    """Whether a variable must be passed along (else it is unchanged, local to the body, or unusable after it)."""
    if before is UNDEFINED or after is UNDEFINED:
        return False
    for value in (before, after):
        if not (is_dynamic(value) or is_number(value) or isinstance(value, tuple) or (value is None and cell.tile)):
            return False
    return not _same(before, after)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Value) or isinstance(b, Value):
        return a is b
    return type(a) is type(b) and a == b


def _materialise(context: Context, cell: Cell, value: Any) -> Any:
    """What a variable holds, with nothing left in memory."""
    if value is None and cell.tile is not None:
        return memory.load(context, cell.tile)
    if isinstance(value, tuple):
        return tuple(_materialise(context, cell, item) for item in value)
    return operand(context, value)


def _type_of(context: Context, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_type_of(context, item) for item in value)
    if isinstance(value, Value):
        return value.type
    if isinstance(value, Expr):
        return TileType(context.builder.index_type)
    if is_number(value):
        return TileType(number_type(value))
    return value


def _join(context: Context, cell: Cell, a: Any, b: Any) -> Any:
    """The type that holds both."""
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(_join(context, cell, x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, TileType) and isinstance(b, TileType):
        pointers = [t for t in (a, b) if isinstance(t.dtype, dtypes.PointerType)]
        dtype = pointers[0].dtype if pointers else dtypes.promote(a.dtype, b.dtype)
        try:
            return tile_type(dtype, shapes.broadcast(extents_of(a), extents_of(b), context.facts))
        except shapes.ShapeMismatch as error:
            raise context.error(f"{cell.name!r} changes its shape from one path to the other: {error}") from None
    if a == b:
        return a
    raise context.error(
        f"{cell.name!r} is {a!r} on one path and {b!r} on the other, and the choice is made at run time"
    )


def _leaves(structure: Any) -> list:
    if isinstance(structure, tuple):
        return [leaf for item in structure for leaf in _leaves(item)]
    return [structure]


def _rebuild(structure: Any, leaves) -> Any:
    if isinstance(structure, tuple):
        return tuple(_rebuild(item, leaves) for item in structure)
    return next(leaves)


def _convert(context: Context, value: Any, type: Any) -> list:
    """The leaves of a value, as values of the leaves of `type`."""
    result = []
    for item, target in zip(_leaves(value), _leaves(type), strict=True):
        if isinstance(target, TileType):
            converted = context.builder.value(item, target.dtype)
            result.append(context.builder.broadcast_to(converted, extents_of(target)))
    return result


def _fresh(context: Context, cell: Cell, type: Any) -> tuple[Any, list[Value]]:
    """Arguments of an operation for a variable of some type, and what the variable then holds."""
    values, items = [], []
    for leaf in _leaves(type):
        if isinstance(leaf, TileType):
            values.append(Value(leaf, cell.name))
            items.append(values[-1])
        else:
            items.append(leaf)
    return _rebuild(type, iter(items)), values


# -- loops -----------------------------------------------------------------------------------------


def _carried_types(context: Context, body, variable: str | None) -> dict[Cell, Any]:
    """Trace a body once: which variables it changes, and the types that hold them before and after."""
    with region(context) as (operations, journal):
        body()
        after = {cell: cell.value for cell in journal}
        new_types = {cell: _type_of(context, _in_block(context, cell, value)) for cell, value in after.items()}
    _forget_if_stored(context, operations)
    if not _stores(operations):
        _load_before(context, operations, variable)
    types = {}
    for cell, before in journal.items():
        if _is_carried(context, cell, before, after[cell]):
            types[cell] = _join(context, cell, _entry_type(context, cell, before), new_types[cell])
        elif not _same(before, after[cell]):
            cell.value = UNDEFINED if before is UNDEFINED else before
    return types


def _load_before(context: Context, operations, variable: str | None) -> None:
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


def _in_block(context: Context, cell: Cell, value: Any) -> Any:
    return value if value is UNDEFINED else _materialise(context, cell, value)


def _entry_type(context: Context, cell: Cell, before: Any) -> Any:
    if before is None and cell.tile is not None:
        scalar_argument = context.argument(cell.tile.parameter).kind == "scalar"
        return memory.load(context, cell.tile).type if scalar_argument else memory.access(context, cell.tile).type
    return _type_of(context, operand(context, before) if isinstance(before, TileRef) else before)


def _loop(context: Context, body, variable: str | None = None):
    """Trace a loop body to a fixed point. Gives (cells, initial, arguments, operations, yields, results, extra)."""
    types = _carried_types(context, body, variable)
    while True:
        initial = [
            value
            for cell, type in types.items()
            for value in _convert(context, _materialise(context, cell, cell.value), type)
        ]
        widened = dict(types)
        arguments: list[Value] = []
        with region(context) as (operations, journal):
            for cell, type in types.items():
                held, values = _fresh(context, cell, type)
                write(context, cell, held)
                arguments.extend(values)
            extra = body()
            for cell, type in types.items():
                end = _materialise(context, cell, cell.value)
                widened[cell] = _join(context, cell, type, _type_of(context, end))
            # A variable that looked unchanged when first traced may take over what another carries: a, b = b, a + b.
            for cell, before in journal.items():
                if cell not in types and _is_carried(context, cell, before, cell.value):
                    end = _type_of(context, _materialise(context, cell, cell.value))
                    widened[cell] = _join(context, cell, _entry_type(context, cell, before), end)
            stable = widened.keys() == types.keys() and all(_equal_types(widened[cell], types[cell]) for cell in types)
            yields = (
                [
                    v
                    for cell, type in types.items()
                    for v in _convert(context, _materialise(context, cell, cell.value), type)
                ]
                if stable
                else []
            )
        if stable:
            return types, initial, arguments, operations, yields, extra, journal
        types = widened


def _equal_types(a: Any, b: Any) -> bool:
    if isinstance(a, TileType) and isinstance(b, TileType):
        return a.dtype == b.dtype and a.lanes == b.lanes
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(_equal_types(x, y) for x, y in zip(a, b, strict=True))
    return a == b


def _finish(context: Context, types: dict[Cell, Any], journal, *blocks) -> tuple[Value, ...]:
    """Let variables hold the results of an operation; those that only its body knows are undefined after it."""
    results: list[Value] = []
    for cell, before in journal.items():
        if cell in types:
            held, values = _fresh(context, cell, types[cell])
            write(context, cell, held)
            results.extend(values)
        elif before is UNDEFINED:
            write(context, cell, UNDEFINED)
    _forget_if_stored(context, *blocks)
    return tuple(results)


def for_(context: Context, frame: Frame, node: ast.For) -> Any:
    from ninetoothed.frontend.expressions import evaluate, iterate
    from ninetoothed.frontend.statements import assign, run

    if node.orelse:
        raise context.error("a loop in an application has no `else`")
    bounds = _range(context, frame, node.iter)
    location = context.builder.location
    if bounds is None or isinstance(bounds, range):
        iterated = evaluate(context, frame, node.iter) if bounds is None else bounds
        if isinstance(iterated, TileRef) and not memory.shape(context, iterated)[0].is_constant:
            raise context.error("iterate over tiles with `for i in range(x.shape[0])` and `x[i]`", location)
        for item in _few(context, iterate(context, iterated)):
            assign(context, frame, node.target, item)
            outcome = run(context, frame, node.body)
            if outcome is not None:
                return outcome
        return None
    if not isinstance(node.target, ast.Name):
        raise context.error("the target of a `range` loop is one name")
    start, stop, step, hints = bounds
    variable = context.builder.fresh(node.target.id)
    context.builder.facts = _counter_facts(context, variable, start, stop, step)

    def body():
        assign(context, frame, node.target, var(variable))
        run(context, frame, node.body)

    types, initial, arguments, operations, yields, _, journal = _loop(context, body, variable)
    results = _finish(context, types, journal, operations)
    bindings = context.builder.bindings(start, stop, step)
    context.builder.emit(
        ir.For(
            variable, start, stop, step, bindings, tuple(initial), tuple(arguments), tuple(operations), tuple(yields),
            results, hints, location=location,
        )
    )  # fmt: skip
    return None


def _few(context: Context, items: list) -> list:
    if len(items) > MAX_UNROLLED:
        raise context.error(
            f"a loop over {len(items)} items that are known when compiling would be unrolled; use `range`"
        )
    return items


def _counter_facts(context: Context, variable: str, start: Expr, stop: Expr, step: Expr):
    facts = context.facts
    multiple = divisor(start, facts) if not (start.is_constant and start.constant == 0) else 0
    if not step.is_constant:
        return facts.bind(variable, start, stop - 1)
    size = step.constant
    multiple = math.gcd(multiple, size)
    if size > 0:
        return facts.bind(variable, start, stop - 1, max(multiple, 1))
    return facts.bind(variable, stop + 1, start, max(multiple, 1))


def _range(context: Context, frame: Frame, node: ast.expr):
    """The bounds of `range` or `ntl.range`, with its hints; the range itself where it is static; else None."""
    from ninetoothed.frontend.calls import _language_function, bind
    from ninetoothed.frontend.expressions import evaluate, iterate

    if not isinstance(node, ast.Call):
        return None
    callee = evaluate(context, frame, node.func)
    language = _language_function(context, callee)
    if callee is not range and (language is None or language.name not in ("range", "static_range")):
        return None
    args: list = []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            args.extend(iterate(context, evaluate(context, frame, argument.value)))
        else:
            args.append(evaluate(context, frame, argument))
    kwargs = {keyword.arg: evaluate(context, frame, keyword.value) for keyword in node.keywords}
    start, stop, step, *hints = bind(context, FUNCTIONS["range"], args, kwargs)
    start, stop = (0, start) if stop is None else (start, stop)
    step = 1 if step is None else step
    bounds = tuple(integer(context, value, "a bound of `range`") for value in (start, stop, step))
    if bounds[2] == 0:
        raise context.error("the step of `range` must not be zero")
    if language is not None and language.name == "static_range":
        if not all(isinstance(bound, int) for bound in bounds):
            raise context.error("the bounds of `ntl.static_range` must be known when compiling; use `range`")
        return range(*bounds)
    given = {n: v for n, v in zip(FUNCTIONS["range"].parameters[3:], hints, strict=True) if v}
    return (*(as_expr(bound) for bound in bounds), tuple(given.items()))


def while_(context: Context, frame: Frame, node: ast.While) -> None:
    from ninetoothed.frontend.expressions import evaluate
    from ninetoothed.frontend.statements import run

    if node.orelse:
        raise context.error("a loop in an application has no `else`")
    location = context.builder.location
    if operand(context, _peek(context, frame, node.test)) is False:
        return

    def body():
        with context.builder.block() as before:
            condition = scalar(context, truth(context, evaluate(context, frame, node.test)), "the condition of `while`")
        run(context, frame, node.body)
        return before, condition

    types, initial, arguments, operations, yields, (before, condition), journal = _loop(context, body)
    results = _finish(context, types, journal, operations, before)
    context.builder.emit(
        ir.While(
            tuple(initial), tuple(arguments), tuple(before), condition, tuple(operations), tuple(yields), results,
            location=location,
        )
    )  # fmt: skip


def _peek(context: Context, frame: Frame, node: ast.expr) -> Any:
    """What a condition is on entry, leaving no trace."""
    from ninetoothed.frontend.expressions import evaluate

    with region(context):
        return evaluate(context, frame, node)


# -- branches --------------------------------------------------------------------------------------


def if_(context: Context, frame: Frame, node: ast.If) -> Any:
    from ninetoothed.frontend.expressions import evaluate
    from ninetoothed.frontend.statements import run

    location = context.builder.location
    condition = operand(context, evaluate(context, frame, node.test))
    if not is_dynamic(condition):
        return run(context, frame, node.body if condition else node.orelse)
    condition = scalar(context, truth(context, condition), "the condition of `if`")
    branches = []
    for body in (node.body, node.orelse):
        with region(context) as (operations, journal):
            run(context, frame, body)
            ends = {cell: cell.value for cell in journal}
            loads = dict(context.loads)
        branches.append((operations, journal, ends, loads))
    entry = {**branches[1][1], **branches[0][1]}
    types = {}
    journal: dict[Cell, Any] = {}
    for cell, before in entry.items():
        ends = [branch[2].get(cell, before) for branch in branches]
        journal[cell] = before
        if _same(*ends):
            write(context, cell, ends[0])
            journal.pop(cell)
        elif any(end is UNDEFINED for end in ends):
            write(context, cell, UNDEFINED)
            journal.pop(cell)
        else:
            materialised = [_close(context, branch, cell, before) for branch in branches]
            types[cell] = _join(context, cell, *(_type_of(context, value) for value in materialised))
            for branch, value in zip(branches, materialised, strict=True):
                branch[2][cell] = value
    yields = []
    for branch in branches:
        with context.builder.reopened(branch[0]):
            yields.append(tuple(v for cell, type in types.items() for v in _convert(context, branch[2][cell], type)))
    results = _finish(context, types, journal, branches[0][0], branches[1][0])
    then, orelse = branches
    context.builder.location = location
    context.builder.emit(
        ir.If(condition, tuple(then[0]), yields[0], tuple(orelse[0]), yields[1], results, location=location)
    )
    return None


def _close(context: Context, branch, cell: Cell, before: Any) -> Any:
    """What a variable holds at the end of a branch, loaded there if it is still in memory."""
    operations, _, ends, loads = branch
    outer, context.loads = context.loads, loads
    with context.builder.reopened(operations):
        value = _materialise(context, cell, ends.get(cell, before))
    context.loads = outer
    return value

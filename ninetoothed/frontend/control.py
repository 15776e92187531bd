"""Trace loops and branches: structured operations around the blocks of their bodies."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ninetoothed import ir
from ninetoothed.effects import has_effect
from ninetoothed.expr import Expr, Facts, as_expr, const, divisor, is_nonnegative, var
from ninetoothed.frontend import memory
from ninetoothed.frontend.arguments import bind
from ninetoothed.frontend.builder import EmissionForbidden
from ninetoothed.frontend.calls import language_function
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.effects import device_assert
from ninetoothed.frontend.functions import where
from ninetoothed.frontend.loop_carried import convert, finish, join, loop, materialise, region, same, type_of, write
from ninetoothed.frontend.merging import merged
from ninetoothed.frontend.operators import binary, extremum, integer, is_dynamic, operand, scalar, truth
from ninetoothed.frontend.values import UNDEFINED, Cell, Dimension, KnownCount, OpenCount, Scope, TileRef
from ninetoothed.frontend.variables import iterate, snapshot
from ninetoothed.ir import Value
from ninetoothed.language.functions import FUNCTIONS

MAX_UNROLLED = 4096
_WHERE = "choose element by element with `ntl.where(condition, a, b)`, or reduce the condition, say with `ntl.max`"
_ANY = "a loop goes on for a whole tile: reduce the condition, say with `ntl.max`, and choose inside with `ntl.where`"
_ZERO_STEP = "the step of `range` must not be zero"


# -- loops -----------------------------------------------------------------------------------------


def for_(context: TraceContext, scope: Scope, node: ast.For) -> Any:
    """Trace a `for`: unrolled over known items, else a loop of the kernel."""
    if node.orelse:
        raise context.error("a loop in an application has no `else`")
    bounds = _range(context, scope, node.iter)
    if bounds is None or isinstance(bounds, range):
        return _unrolled(context, scope, node, bounds)
    if not isinstance(node.target, ast.Name):
        raise context.error("the target of a `range` loop is one name")
    _counted(context, scope, node, *bounds)
    return None


def _unrolled(context: TraceContext, scope: Scope, node: ast.For, items: range | None) -> Any:
    """Unroll a loop over `items`, or over a sequence that is known when compiling."""
    location = context.builder.location
    iterated = context.evaluate(scope, node.iter) if items is None else items
    if isinstance(iterated, TileRef) and not memory.shape(context, iterated)[0].is_constant:
        raise context.error("iterate over tiles with `for i in range(x.shape[0])` and `x[i]`", location)
    for item in _few(context, iterate(context, iterated)):
        context.assign(scope, node.target, item)
        outcome = context.run(scope, node.body)
        if outcome is not None:
            return outcome
    return None


def _counted(
    context: TraceContext,
    scope: Scope,
    node: ast.For,
    start: Expr,
    stop: Expr,
    step: Expr,
    hints: tuple,
    merge: Any,
    dimension: Dimension | None,
) -> None:
    """Trace a loop that stays a loop; over all tiles along `dimension`, where one is given."""
    location = context.builder.location
    assert isinstance(node.target, ast.Name)
    variable = context.builder.fresh(node.target.id)
    counter = var(variable)
    if dimension is not None:
        context.counters[variable] = dimension
    if not step.is_constant and not is_nonnegative(step - 1, context.facts):
        counter = start + counter * step
        start, stop, step = const(0), _rounds(context, start, stop, step), const(1)
    context.builder.facts = _counter_facts(context, variable, start, stop, step)

    def body() -> None:
        context.assign(scope, node.target, counter)
        context.run(scope, node.body)

    traced = loop(context, body, variable)
    merge = None if merge is None else merged(context, merge, traced)
    results = finish(context, traced.types, traced.write_log, traced.operations)
    bindings = context.builder.bindings(start, stop, step)
    context.builder.emit(
        ir.For(
            variable, start, stop, step, bindings, traced.initial, traced.arguments, tuple(traced.operations),
            traced.yields, results, hints, merge, location=location,
        )
    )  # fmt: skip


def _rounds(context: TraceContext, start: Expr, stop: Expr, step: Expr) -> Expr:
    """Compute the trip count of a `range` whose step has a sign that only the call tells: Triton takes no such loop."""
    may_count = binary(context, "ne", step, 0)
    device_assert(context, may_count, _ZERO_STEP)
    divisor = where(context, may_count, step, 1)
    rounds = binary(context, "sub", 0, binary(context, "floordiv", start - stop, divisor))
    rounds = where(context, may_count, extremum(context, "maximum", (rounds, 0)), 0)
    return as_expr(integer(context, rounds, "a number of rounds"))


def _few(context: TraceContext, items: list) -> list:
    if len(items) > MAX_UNROLLED:
        raise context.error(
            f"a loop over {len(items)} items that are known when compiling would be unrolled; use `range`"
        )
    return items


def _counter_facts(context: TraceContext, variable: str, start: Expr, stop: Expr, step: Expr) -> Facts:
    """Bind the range of a loop's counter; a step that is no constant is positive."""
    facts = context.facts
    multiple = divisor(start, facts) if not (start.is_constant and start.constant == 0) else 0
    if not step.is_constant:
        return facts.bind(variable, start, stop - 1)
    size = step.constant
    multiple = math.gcd(multiple, size)
    if size > 0:
        return facts.bind(variable, start, stop - 1, max(multiple, 1))
    return facts.bind(variable, stop + 1, start, max(multiple, 1))


def _range(context: TraceContext, scope: Scope, node: ast.expr) -> Any:
    """Return the bounds of `range` or `ntl.range`, its hints, what merges, and the dimension whose tiles it counts.

    The range itself where it is static; None for anything else.
    """
    if not isinstance(node, ast.Call):
        return None
    callee = context.evaluate(scope, node.func)
    language = language_function(context, callee)
    if callee is not range and (language is None or language.name not in ("range", "static_range")):
        return None
    args: list = []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            args.extend(iterate(context, context.evaluate(scope, argument.value)))
        else:
            args.append(context.evaluate(scope, argument))
    kwargs = {keyword.arg: context.evaluate(scope, keyword.value) for keyword in node.keywords}
    start, stop, step, *hints, merge = bind(context, FUNCTIONS["range"], args, kwargs)
    start, stop = (0, start) if stop is None else (start, stop)
    step = 1 if step is None else step
    bounds = tuple(integer(context, value, "a bound of `range`") for value in (start, stop, step))
    known = [bound for bound in bounds if isinstance(bound, int)]
    if bounds[2] == 0:
        raise context.error(_ZERO_STEP)
    if language is not None and language.name == "static_range":
        if len(known) < len(bounds):
            raise context.error("the bounds of `ntl.static_range` must be known when compiling; use `range`")
        return range(*known)
    if context.builder.is_closed and len(known) == len(bounds):
        counted = range(*known)
        if len(counted) <= MAX_UNROLLED:
            return counted
    given = {n: v for n, v in zip(FUNCTIONS["range"].parameters[3:-1], hints, strict=True) if v}
    is_over_all = bounds[0] == 0 and bounds[2] == 1
    dimension = bounds[1].dimension if is_over_all and isinstance(bounds[1], KnownCount | OpenCount) else None
    return (*(as_expr(bound) for bound in bounds), tuple(given.items()), merge, dimension)


def while_(context: TraceContext, scope: Scope, node: ast.While) -> Any:
    """Trace a `while`."""
    if node.orelse:
        raise context.error("a loop in an application has no `else`")
    if context.builder.is_closed:
        return _while_known(context, scope, node)
    location = context.builder.location

    def going() -> Value:
        context.builder.location = location
        condition = operand(context, context.evaluate(scope, node.test))
        condition = condition if is_dynamic(condition) else bool(condition)
        return scalar(context, truth(context, condition), "the condition of `while`", _ANY)

    entered = going()
    if _known(context, entered) is False:
        return None

    def body() -> Value:
        with context.conditionally():
            context.run(scope, node.body)
            return going()

    traced = loop(context, body)
    if _known(context, entered) and _known(context, traced.returned):
        raise context.error("this loop never ends: nothing in it changes what its condition depends on", location)
    condition = Value(entered.type, "going")
    results = finish(context, traced.types, traced.write_log, traced.operations)
    context.builder.emit(
        ir.While(
            (entered, *traced.initial), (condition, *traced.arguments), tuple(traced.operations),
            (traced.returned, *traced.yields), (Value(entered.type, "going"), *results), location=location,
        )
    )  # fmt: skip
    return None


def _known(context: TraceContext, value: Value) -> Any:
    """Return the number that a value is known to be; None where only the kernel knows it."""
    producer = context.builder.producer(value)
    return producer.value if isinstance(producer, ir.Constant) else None


def _while_known(context: TraceContext, scope: Scope, node: ast.While) -> Any:
    """Run a loop as Python does, where only known numbers are computed."""
    for _ in range(MAX_UNROLLED):
        condition = operand(context, context.evaluate(scope, node.test))
        if is_dynamic(condition):
            break
        if not condition:
            return None
        outcome = context.run(scope, node.body)
        if outcome is not None:
            return outcome
    raise EmissionForbidden


# -- branches --------------------------------------------------------------------------------------


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
        with context.builder.reopened(branch.operations):
            yields.append(tuple(v for cell, type in types.items() for v in convert(context, branch.ends[cell], type)))
    then, orelse = (branch.operations for branch in branches)
    results = finish(context, types, write_log, then, orelse)
    context.builder.location = location
    context.builder.emit(ir.If(condition, tuple(then), yields[0], tuple(orelse), yields[1], results, location=location))


def _close(context: TraceContext, branch: _Branch, cell: Cell, before: Any) -> Any:
    """Return the value of a variable at the end of a branch, loaded there if it is still in memory."""
    outer, context.loads = context.loads, branch.loads
    with context.builder.reopened(branch.operations):
        value = materialise(context, cell, branch.ends.get(cell, before))
    context.loads = outer
    return value

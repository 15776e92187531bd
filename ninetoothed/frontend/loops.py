"""Trace loops: over known items they are unrolled, others stay loops of the kernel."""

from __future__ import annotations

import ast
import math
from functools import partial
from typing import Any

from ninetoothed import ir
from ninetoothed.expr import Expr, Facts, as_expr, const, divisor, is_nonnegative, var
from ninetoothed.frontend import memory
from ninetoothed.frontend.arguments import bind
from ninetoothed.frontend.builder import EmissionForbidden
from ninetoothed.frontend.calls import language_function
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.effects import device_assert
from ninetoothed.frontend.functions import where
from ninetoothed.frontend.loop_carried import loop
from ninetoothed.frontend.merging import trace_merge
from ninetoothed.frontend.operators import binary, extremum, integer, is_dynamic, operand, scalar, truth
from ninetoothed.frontend.oversights import note_target
from ninetoothed.frontend.values import Dimension, KnownCount, OpenCount, Scope, TileRef
from ninetoothed.frontend.variables import iterate, starred
from ninetoothed.ir import Value
from ninetoothed.language.functions import FUNCTIONS

MAX_UNROLLED = 4096
_ANY = "a loop goes on for a whole tile: reduce the condition, say with `ntl.max`, and choose inside with `ntl.where`"
_ZERO_STEP = "the step of `range` must not be zero"


def for_(context: TraceContext, scope: Scope, node: ast.For) -> Any:
    """Trace a `for`: unrolled over known items, else a loop of the kernel."""
    if node.orelse:
        raise context.error("a loop in an application has no `else`: put its statements behind the loop")
    note_target(context, scope, node.target)
    bounds = _range(context, scope, node.iter)
    if bounds is None or isinstance(bounds, range):
        return _unrolled(context, scope, node, bounds)
    if not isinstance(node.target, ast.Name):
        raise context.error("the target of a `range` loop is one name; compute others from it, inside the loop")
    start, stop, *_ = bounds
    # From a size to itself there is no round, whatever the sizes are. Of a size that is known to be 0 what is asked of
    # the tiles of a round is still said.
    if start != stop or stop.is_constant:
        _counted(context, scope, node, *bounds)
    return None


def _unrolled(context: TraceContext, scope: Scope, node: ast.For, counted: range | None) -> Any:
    """Unroll a loop over the numbers in `counted`, or over a sequence that is known when compiling."""
    location = context.builder.location
    iterated = context.evaluate(scope, node.iter) if counted is None else counted
    if isinstance(iterated, TileRef) and not memory.shape(context, iterated)[0].is_constant:
        raise context.error("iterate over tiles with `for i in range(x.shape[0])` and `x[i]`", location)
    items = iterate(context, iterated)
    if len(items) > MAX_UNROLLED:
        raise context.error(
            f"a loop over {len(items)} items that are known when compiling would be unrolled; use `range`"
        )
    for item in items:
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
    merge = None if merge is None or context.is_sketch else trace_merge(context, merge, traced)
    carried, bindings = traced.leave(context), context.builder.bindings(start, stop, step)
    bounds = start, stop, step, bindings
    context.builder.emit(ir.For(carried, traced.body, variable, *bounds, hints, merge, location=location))


def _rounds(context: TraceContext, start: Expr, stop: Expr, step: Expr) -> Expr:
    """Compute the trip count of a `range` whose step has a sign that only the call tells: Triton takes no such loop."""
    may_count = binary(context, "ne", step, 0)
    device_assert(context, may_count, _ZERO_STEP)
    divisor = where(context, may_count, step, 1)
    rounds = binary(context, "sub", 0, binary(context, "floordiv", start - stop, divisor))
    rounds = where(context, may_count, extremum(context, "maximum", (rounds, 0)), 0)
    return as_expr(integer(context, rounds, "a number of rounds"))


def _counter_facts(context: TraceContext, variable: str, start: Expr, stop: Expr, step: Expr) -> Facts:
    """Bind the range of a loop's counter; a step that is no constant is positive."""
    facts, size = context.facts, step.constant if step.is_constant else 1
    multiple = math.gcd(0 if start == 0 else divisor(start, facts), size)
    first, last = (start, stop - 1) if size > 0 else (stop + 1, start)
    return facts.bind(variable, first, last, multiple)


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
    args = starred(context, scope, node.args, partial(context.evaluate, scope))
    kwargs = {keyword.arg: context.evaluate(scope, keyword.value) for keyword in node.keywords}
    start, stop, step, *hints, merge = bind(context, FUNCTIONS["range"], args, kwargs)
    start, stop = (0, start) if stop is None else (start, stop)
    given = (start, stop, 1 if step is None else step)
    bounds = tuple(integer(context, value, "a bound of `range`") for value in given)
    if bounds[2] == 0:
        raise context.error(_ZERO_STEP)
    unrolled = _unrolled_range(context, bounds, language is not None and language.name == "static_range")
    if unrolled is not None:
        return unrolled
    wanted = {n: v for n, v in zip(FUNCTIONS["range"].parameters[3:-1], hints, strict=True) if v}
    is_over_all = bounds[0] == 0 and bounds[2] == 1
    dimension = bounds[1].dimension if is_over_all and isinstance(bounds[1], KnownCount | OpenCount) else None
    return (*(as_expr(bound) for bound in bounds), tuple(wanted.items()), merge, dimension)


def _unrolled_range(context: TraceContext, bounds: tuple[Any, ...], is_static: bool) -> range | None:
    """Return the range of a loop to unroll: a static one, one of a single round within another block, or a short one
    where no operation may be emitted.
    """
    known = [bound for bound in bounds if isinstance(bound, int)]
    is_known = len(known) == len(bounds)
    if is_static and not is_known:
        raise context.error("the bounds of `ntl.static_range` must be known when compiling; use `range`")
    if not is_known:
        return None
    rounds, is_pure = len(range(*known)), context.builder.forbids_emission
    may_unroll = is_static or (is_pure and rounds <= MAX_UNROLLED) or (rounds == 1 and context.builder.is_nested)
    return range(*known) if may_unroll else None


def while_(context: TraceContext, scope: Scope, node: ast.While) -> Any:
    """Trace a `while`."""
    if node.orelse:
        raise context.error("a loop in an application has no `else`: put its statements behind the loop")
    if context.builder.forbids_emission:
        return _while_known(context, scope, node)
    location = context.builder.location

    def evaluate_condition() -> Value:
        context.builder.location = location
        condition = operand(context, context.evaluate(scope, node.test))
        condition = condition if is_dynamic(condition) else bool(condition)
        return scalar(context, truth(context, condition), "the condition of `while`", _ANY)

    entered = evaluate_condition()
    if _known(context, entered) is False:
        return None

    def body() -> Value:
        with context.conditionally():
            context.run(scope, node.body)
            return evaluate_condition()

    traced = loop(context, body)
    if _known(context, entered) and _known(context, traced.returned):
        raise context.error("this loop never ends: nothing in it changes what its condition depends on", location)
    going, gone = (Value(entered.type, "going") for _ in range(2))
    condition = ir.Carried(entered, going, traced.returned, gone)
    context.builder.emit(ir.While((condition, *traced.leave(context)), traced.body, location=location))
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

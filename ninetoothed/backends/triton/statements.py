"""Print blocks of operations as statements: which values get variables, and how loops and branches hand values on."""

from __future__ import annotations

import ast
import re
from typing import Any

from ninetoothed import dtypes, ir
from ninetoothed.backends.triton import accesses, barriers, combine, functions, hoisting, index_width, syntax
from ninetoothed.backends.triton.analysis import BlockKey, OperationPlace, YieldTargets, key_of
from ninetoothed.backends.triton.context import EmitContext, TextBlock, ValueText
from ninetoothed.backends.triton.tiles import TilePrinter
from ninetoothed.backends.triton.variables import (
    is_free,
    is_taken_over,
    is_target,
    target,
    targets_of,
)
from ninetoothed.expr import const
from ninetoothed.ir.effects import has_effect
from ninetoothed.language.primitive import Effect
from ninetoothed.passes.operations import is_dot


def block(context: EmitContext, key: BlockKey, operations: ir.Block, targets: YieldTargets) -> None:
    """Print the statements of one block into the innermost scope."""
    for position, operation in enumerate(operations):
        place = OperationPlace(key, position, targets)
        if context.dialect is None or not context.dialect.prints(context, operation, place):
            _operation(context, operation, place)
    if context.dialect is not None:
        context.dialect.ends(context)


def _operation(context: EmitContext, operation: ir.Operation, place: OperationPlace) -> None:
    """Print an operation, or remember the text of its result where that is used."""
    match operation:
        case ir.Constant(result=result, value=value):
            context.texts[result] = ValueText(syntax.number(value), (), value)
        case ir.ScalarArgument(result=result, parameter=parameter):
            text = ValueText(context.argument(parameter))
            if result.type.dtype == dtypes.int1:  # passed as an int32: a flag has no type of its own in an argument
                text = ValueText(syntax.binary("!=", text.node, syntax.number(0)))
            context.texts[result] = text
        case ir.Index(result=result):
            _give(context, result, _index(context, operation), place)
        case ir.Load(result=result, access=access):
            name = result.hint or access.parameter
            _give(context, result, accesses.load(context, operation), place, name)
        case ir.Store():
            accesses.store(context, operation)
        case ir.Apply():
            _apply(context, operation, place)
        case ir.For():
            _for(context, operation, place)
        case ir.While():
            _while(context, operation, place)
        case ir.If():
            _if(context, operation, place)
        case ir.Print():
            _print(context, operation)
        case ir.Breakpoint():
            raise context.unsupported(
                "`breakpoint()` works on the CPU alone: call the kernel with CPU tensors", operation
            )
        case _:
            raise AssertionError(f"no text for {operation!r}")


def _index(context: EmitContext, operation: ir.Index) -> ValueText:
    type = operation.result.type
    is_long = type.dtype.bits == 64
    printer = TilePrinter.of(context, operation.lanes, type, operation.bindings, wide=is_long)
    text = printer.text(operation.expr, operation.result.hint or "index")
    if text.constant is not None:
        return text
    if type.dtype == dtypes.int32:
        return ValueText(index_width.narrowed(text.node, operation.expr, operation.bindings), text.shape)
    return ValueText(syntax.method(text.node, "to", functions.dtype_node(type.dtype)), text.shape)


def _apply(context: EmitContext, operation: ir.Apply, place: OperationPlace) -> None:
    """Print an application of a primitive; several results are assigned together."""
    is_combining = operation.primitive.has_combine
    text = (combine if is_combining else functions).text_of(context, operation)
    if not operation.results:
        context.run(text.node)
    elif len(operation.results) == 1:
        _give(context, operation.result, text, place, operation.result.hint or operation.function)
    else:
        names: list[str] = []
        for value in operation.results:
            wanted = value.hint or operation.function
            names.append(target(context, value, place, wanted, value.type.lanes, taken=names))
        context.append(syntax.assign(tuple(names), text.node))
        for value, name in zip(operation.results, names, strict=True):
            context.texts.hold(value, name, value.type.lanes)


# -- names --


def _give(
    context: EmitContext, value: ir.Value, text: ValueText, place: OperationPlace, wanted: str | None = None
) -> None:
    """Inline `text` where `value` is used, or assign it to a variable here."""
    if not is_target(context, value, place):
        if context.analysis.is_inlined(value) or isinstance(text.node, ast.Name):  # a second name tells nothing
            context.texts[value] = text
            return
        if not context.analysis.uses.get(value):
            if has_effect(context.analysis.producers[value]):
                context.run(text.node)
            return
        if _is_invariant(context, value, text):
            name = context.fresh(wanted or value.hint or "value", (value.type.dtype, text.shape), context.depth - 1)
            # The loop itself is appended when its body is done.
            context.scopes[-2].statements.append(syntax.assign(name, functions.typed(text, value.type.dtype)))
            context.texts.hold(value, name, text.shape)
            return
    else:
        text = ValueText(functions.materialise(text, value.type), value.type.lanes)
    name = target(context, value, place, wanted or value.hint or "value", text.shape)
    context.append(syntax.assign(name, functions.typed(text, value.type.dtype)))
    context.texts.hold(value, name, text.shape)


def _is_invariant(context: EmitContext, value: ir.Value, text: ValueText) -> bool:
    """Tell whether a value is the same in each round of the loop at hand, and may be computed before it.

    Loops over products stay as they are: what their instructions read has its place.
    """
    scope, operation = context.scopes[-1], context.analysis.producers.get(value)
    if not scope.hoists or not isinstance(operation, ir.Apply) or operation.primitive.effect is not Effect.NONE:
        return False
    names = syntax.names_in(text.node)
    is_local = all(isinstance(use.operation, ir.Apply | ir.Store) for use in context.analysis.uses[value])
    return is_local and bool(names) and names.isdisjoint(scope.own | scope.carried)


# -- control flow --


def _enter_loop(context: EmitContext, operation: ir.Loop, place: OperationPlace) -> list[str]:
    """Name the loop-carried variables and assign their initial values."""
    names, values = [], []
    for each in operation.carried:
        initial = each.initial
        hint = each.result.hint or each.argument.hint or each.yielded.hint or initial.hint or "carried"
        text = context.texts[initial]
        is_counter = text.constant is not None and initial.type == ir.TileType(dtypes.int32)
        node = text.node if is_counter else functions.materialise(text, initial.type)
        wanted = place.targets.get(each.result)
        if wanted is not None and is_free(context, wanted, place, operation):
            name = wanted
        elif isinstance(node, ast.Name) and is_taken_over(context, node.id, initial, operation, place):
            name = node.id
        else:
            name = context.fresh(hint, (initial.type.dtype, initial.type.lanes))
        if isinstance(node, ast.Name) and _takes_over_a_twin(operation, each):
            node = _copy(node, initial.type.dtype)
        names.append(name)
        values.append(node)
    _assign_all(context, names, values)
    for name, argument in zip(names, operation.arguments, strict=True):
        context.texts.hold(argument, name, argument.type.lanes)
    return names


def _leave_loop(context: EmitContext, operation: ir.Loop, names: list[str]) -> list[ast.stmt]:
    """Assign the loop-carried variables for the next round, end the loop, and return its statements."""
    _yield_all(context, names, operation.yields)
    body = context.leave()
    for name, result in zip(names, operation.results, strict=True):
        context.texts.hold(result, name, result.type.lanes)
    return body


def _round(context: EmitContext, operation: ir.Loop, names: list[str]) -> TextBlock:
    """Begin the text of a round."""
    hoists = context.dialect is None and not any(map(is_dot, ir.walk(operation.body)))
    return TextBlock(repeats=True, carried=frozenset(names), hoists=hoists)


def _takes_over_a_twin(operation: ir.Loop, own: ir.Carried) -> bool:
    """Tell whether a variable takes over another with the same initial value: a = b = x; loop: a, b = b, a + b.

    Triton (3.6 to 3.9) carries variables that a loop changes, and sees no change where both begin as one value.
    """
    others = (each for each in operation.carried if each is not own)
    return any(other.argument is own.yielded and other.initial is own.initial for other in others)


def _copy(node: ast.expr, dtype) -> ast.expr:
    """Print a copy: the same value, distinct to Triton."""
    if dtype == dtypes.int1:
        return syntax.binary("&", node, node)
    is_pointer = isinstance(dtype, dtypes.PointerType)
    return syntax.binary("+" if is_pointer else "*", node, ast.Constant(0 if is_pointer else 1))


def _yield_all(context: EmitContext, names: list[str], yields: tuple[ir.Value, ...]) -> None:
    nodes = [functions.materialise(context.texts[value], value.type) for value in yields]
    _assign_all(context, names, nodes)


def _assign_all(context: EmitContext, names: list[str], nodes: list[ast.expr]) -> None:
    """Assign in an order in which nothing is read after it was overwritten; all at once where there is none."""
    pending = [(n, v) for n, v in zip(names, nodes, strict=True) if not (isinstance(v, ast.Name) and v.id == n)]
    while pending:
        free = [
            i
            for i, (name, _) in enumerate(pending)
            if not any(name in syntax.names_in(node) for j, (_, node) in enumerate(pending) if j != i)
        ]
        if not free:
            context.append(syntax.assign(tuple(n for n, _ in pending), ast.Tuple([v for _, v in pending])))
            return
        name, node = pending.pop(free[0])
        context.append(syntax.assign(name, node))


def _for(context: EmitContext, operation: ir.For, place: OperationPlace) -> None:
    printer = TilePrinter.of(context, (), ir.TileType(dtypes.int32), operation.bindings)
    bounds = _range_arguments(printer, operation)
    names = _enter_loop(context, operation, place)
    key = key_of(operation)
    outer_facts = context.facts
    context.facts = _with_counter(context, operation)
    barriers.before_rounds(context, operation)
    context.scopes.append(_round(context, operation, names))
    counter = _counter(context, operation.variable)
    for name, e in operation.counters:
        node = printer.scalar(e)
        context.append(syntax.assign(_counter(context, name), node))
    block(context, key, operation.body, targets_of(context, key, names, operation.yields))
    body = _leave_loop(context, operation, names)
    context.facts = outer_facts
    # In Triton it lives on after the loop.
    context.scopes[-1].left[counter] = (dtypes.int32, ())
    if operation.is_branch:
        context.append(syntax.assign(counter, bounds[0] if len(bounds) > 1 else syntax.number(0)))
        condition = syntax.binary("<", syntax.name(counter), bounds[min(len(bounds) - 1, 1)])
        context.append(ast.If(condition, body or [ast.Pass()], []))
        return
    hints = {**hoisting.hints(context, operation), **dict(operation.hints)}
    iterator = syntax.call("tl.range" if hints else "range", *bounds, **hints)
    context.append(ast.For(syntax.name(counter), iterator, body or [ast.Pass()], [], lineno=0))


def _counter(context: EmitContext, name: str) -> str:
    """Name a counter of the round that has begun."""
    counter = context.fresh(re.sub(r"_\d+$", "", name), (dtypes.int32, ()))
    context.variables[name] = (syntax.name(counter), context.depth)
    return counter


def _range_arguments(printer: TilePrinter, operation: ir.For) -> list[ast.expr]:
    bounds = operation.start, operation.stop, operation.step
    is_short = not any(parameter.wide for parameter in printer.context.program.parameters)
    bindings = operation.bindings if is_short else ()
    start, stop, step = (index_width.narrowed(printer.scalar(e), e, bindings) for e in bounds)
    if operation.step == 1:
        return [stop] if operation.start == 0 else [start, stop]
    return [start, stop, step]


def _with_counter(context: EmitContext, operation: ir.For):
    """Return the facts inside the loop; those known from tracing are kept."""
    variable, facts = operation.variable, context.facts
    if variable in facts.ranges or operation.bindings or not operation.step.is_constant:
        return facts
    step, start, last = operation.step.constant, operation.start, operation.stop - 1
    multiple = abs(step) if start == const(0) else 1
    if step > 0:
        return facts.bind(variable, start, last, multiple)
    return facts.bind(variable, operation.stop + 1, start)


def _while(context: EmitContext, operation: ir.While, place: OperationPlace) -> None:
    names = _enter_loop(context, operation, place)
    key = key_of(operation)
    barriers.before_rounds(context, operation)
    context.scopes.append(_round(context, operation, names))
    block(context, key, operation.body, targets_of(context, key, names, operation.yields))
    context.append(ast.While(syntax.name(names[0]), _leave_loop(context, operation, names) or [ast.Pass()], []))


def _if(context: EmitContext, operation: ir.If, place: OperationPlace) -> None:
    """Print a branch; a result is a variable that both sides assign."""
    condition = functions.typed(context.texts[operation.condition], dtypes.int1)
    names: list[str] = []
    for each in operation.outcomes:
        wanted = each.result.hint or each.then.hint or each.otherwise.hint or "chosen"
        lanes = each.result.type.lanes
        names.append(target(context, each.result, place, wanted, lanes, by_branches=True, taken=names))
    before = context.written, context.read
    holders = context.texts.holders
    branches: list[list[ast.stmt]] = []
    written: frozenset[Any] = frozenset()
    read: frozenset[Any] = frozenset()
    left: dict[str, Any] = {}
    ended: set[str] = set()
    for index, (body, _, yields) in enumerate(ir.regions(operation)):
        context.written, context.read = before
        context.texts.holders = dict(holders)
        context.scopes.append(TextBlock(left=left, inner=ended))
        key = key_of(operation, index)
        block(context, key, body, targets_of(context, key, names, yields))
        _yield_all(context, names, yields)
        scope = context.scopes[-1]
        left = {**scope.left, **scope.contents}
        branches.append(context.leave())
        ended = scope.own | scope.inner
        written, read = written | context.written, read | context.read
    context.written, context.read = written, read
    context.scopes[-1].left |= left
    for result, name in zip(operation.results, names, strict=True):
        context.texts.hold(result, name, result.type.lanes)
    taken, skipped = branches
    if not taken and not skipped:
        return
    if not taken:
        condition, taken, skipped = syntax.negated(condition), skipped, []
    context.append(ast.If(condition, taken, skipped))


def _print(context: EmitContext, operation: ir.Print) -> None:
    words = [piece for piece in operation.pieces if isinstance(piece, str)]
    values = [piece for piece in operation.pieces if isinstance(piece, ir.Value)]
    nodes = [functions.typed(context.texts[value], value.type.dtype) for value in values]
    prefix = " ".join(words).encode("ascii", "replace").decode()
    context.run(syntax.call("tl.device_print", prefix or " ", *nodes))

"""Blocks of operations as statements: what gets a variable, under which name, and how loops carry values."""

from __future__ import annotations

import ast
import re

from ninetoothed import dtypes, ir
from ninetoothed.backends.triton import accesses, combine, functions, short, syntax
from ninetoothed.backends.triton.analysis import BlockKey, key_of
from ninetoothed.backends.triton.context import Context, Scope, Text
from ninetoothed.backends.triton.tiles import Frame
from ninetoothed.expr import const


def block(context: Context, key: BlockKey, operations: ir.Block, targets: Targets) -> None:
    """The statements of one block, appended to the innermost scope."""
    for position, operation in enumerate(operations):
        _operation(context, operation, Place(key, position, targets))


class Targets:
    """The variables that a block is to leave its yields in, where a yield may be assigned as soon as it is computed."""

    def __init__(self, names: dict[ir.Value, str] | None = None):
        self.names = names or {}


class Place:
    """Where an operation stands, and the names that its results must have."""

    def __init__(self, key: BlockKey, position: int, targets: Targets):
        self.key, self.position, self.targets = key, position, targets


def _operation(context: Context, operation: ir.Operation, place: Place) -> None:
    match operation:
        case ir.Constant(result=result, value=value):
            context.texts[result] = Text(syntax.number(value), (), value)
        case ir.Argument(result=result, parameter=parameter):
            text = Text(context.argument(parameter))
            if result.type.dtype == dtypes.int1:  # passed as an int32: a flag has no type of its own in an argument
                text = Text(syntax.binary("!=", text.node, syntax.number(0)))
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


def _index(context: Context, operation: ir.Index) -> Text:
    type = operation.result.type
    is_long = type.dtype.bits == 64
    frame = Frame.of(context, operation.lanes, type, operation.bindings, wide=is_long)
    text = frame.text(operation.expr, operation.result.hint or "index")
    if text.constant is not None or type.dtype == dtypes.int32:
        return text
    return Text(syntax.method(text.node, "to", functions.dtype_node(type.dtype)), text.shape)


def _apply(context: Context, operation: ir.Apply, place: Place) -> None:
    is_combining = operation.function in ("reduce", "associative_scan")
    text = (combine if is_combining else functions).text_of(context, operation)
    if not operation.results:
        context.run(text.node)
    elif len(operation.results) == 1:
        _give(context, operation.result, text, place, operation.result.hint or operation.function)
    else:
        names = [_target(context, value, place, value.hint or operation.function) for value in operation.results]
        context.append(syntax.assign(tuple(names), text.node))
        for value, name in zip(operation.results, names, strict=True):
            context.texts[value] = Text(syntax.name(name), value.type.lanes)


# -- names --


def _give(context: Context, value: ir.Value, text: Text, place: Place, wanted: str | None = None) -> None:
    """Print `text` where `value` is used, or give it a variable here."""
    if value not in place.targets.names:
        if context.analysis.is_inlined(value) or (isinstance(text.node, ast.Name) and value.hint is None):
            context.texts[value] = text
            return
        if not context.analysis.uses.get(value):
            if _has_effect(context, value):
                context.run(text.node)
            return
    else:
        text = Text(functions.materialise(text, value.type), value.type.lanes)
    name = _target(context, value, place, wanted or value.hint or "value")
    context.append(syntax.assign(name, functions.typed(text, value.type.dtype)))
    context.texts[value] = Text(syntax.name(name), text.shape)


def _has_effect(context: Context, value: ir.Value) -> bool:
    operation = context.analysis.producers[value]
    return isinstance(operation, ir.Apply) and operation.function.startswith("atomic_")


def _target(context: Context, value: ir.Value, place: Place, wanted: str) -> str:
    """The variable of a value: the one that it must have, the one of a dead value of the same name, or a new one."""
    if value in place.targets.names:
        return place.targets.names[value]
    wanted = syntax.identifier(wanted)
    scope = context.scopes[-1]
    held = scope.variables.get(wanted)
    if held is not None and context.analysis.last_read(held[1], place.key) <= place.position:
        name = held[0]
    else:
        name = context.fresh(wanted)
    if context.analysis.block_of(value) == place.key:
        scope.variables[wanted] = (name, value)
    return name


# -- control flow --


def _enter_loop(context: Context, operation: ir.For | ir.While, place: Place) -> list[str]:
    """Name the carried variables and give them their first values."""
    names, values = [], []
    carried = zip(operation.initial, operation.arguments, operation.yields, operation.results, strict=True)
    for initial, argument, yielded, result in carried:
        hint = result.hint or argument.hint or yielded.hint or initial.hint or "carried"
        text = context.texts[initial]
        is_counter = text.constant is not None and initial.type == ir.TileType(dtypes.int32)
        node = text.node if is_counter else functions.materialise(text, initial.type)
        if result in place.targets.names:
            name = place.targets.names[result]
        elif isinstance(node, ast.Name) and _is_last_use(context, initial, operation, place):
            name = node.id
        else:
            name = context.fresh(hint)
        if isinstance(node, ast.Name) and _takes_over_a_twin(operation, initial, argument, yielded):
            node = _copy(node, initial.type.dtype)
        names.append(name)
        values.append(node)
        context.texts[argument] = context.texts[result] = Text(syntax.name(name), argument.type.lanes)
    _assign_all(context, names, values)
    return names


def _takes_over_a_twin(operation: ir.For | ir.While, initial: ir.Value, argument: ir.Value, yielded: ir.Value) -> bool:
    """Whether a variable becomes another that starts as the same value: a, b = x, x; then a, b = b, a + b in the loop.

    Triton carries what a loop's body changes, and sees no change where both begin as one value.
    """
    pairs = zip(operation.initial, operation.arguments, strict=True)
    return any(other is yielded and first is initial for first, other in pairs if other is not argument)


def _copy(node: ast.expr, dtype) -> ast.expr:
    """The same value as one of its own."""
    if dtype == dtypes.int1:
        return syntax.binary("&", node, node)
    is_pointer = isinstance(dtype, dtypes.PointerType)
    return syntax.binary("+" if is_pointer else "*", node, ast.Constant(0 if is_pointer else 1))


def _is_last_use(context: Context, value: ir.Value, operation: ir.Operation, place: Place) -> bool:
    """Whether a variable may be taken over: it is this block's own, and only the loop reads it from here on."""
    if context.analysis.definitions.get(value, (None, 0))[0] != place.key or value in place.targets.names:
        return False
    uses = context.analysis.uses[value]
    own = [use for use in uses if use.operation is operation]
    return (
        len(own) == 1
        and context.analysis.last_read(value, place.key) == place.position
        and all(
            use.operation is operation or context.analysis.last_read_of(use, place.key) < place.position for use in uses
        )
    )


def _body_targets(context: Context, operation: ir.For | ir.While, key: BlockKey, names: list[str]) -> Targets:
    """Yields that may take their variable at once: computed here, when the carried value is read no more."""
    chosen: dict[ir.Value, str] = {}
    for name, argument, yielded in zip(names, operation.arguments, operation.yields, strict=True):
        defined_in, position = context.analysis.definitions.get(yielded, (None, -1))
        is_computed_here = defined_in == key and position >= 0 and yielded not in chosen
        if is_computed_here and not _is_literal(context, yielded):
            if context.analysis.last_read(argument, key) <= position:
                chosen[yielded] = name
    return Targets(chosen)


def _is_literal(context: Context, value: ir.Value) -> bool:
    return isinstance(context.analysis.producers.get(value), ir.Constant | ir.Argument)


def _yield_all(context: Context, names: list[str], yields: tuple[ir.Value, ...]) -> None:
    nodes = [functions.materialise(context.texts[value], value.type) for value in yields]
    _assign_all(context, names, nodes)


def _assign_all(context: Context, names: list[str], nodes: list[ast.expr]) -> None:
    """Assign in an order in which none is read after it was overwritten; all at once where there is no such order."""
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


def _for(context: Context, operation: ir.For, place: Place) -> None:
    frame = Frame.of(context, (), ir.TileType(dtypes.int32), operation.bindings)
    bounds = _range_arguments(frame, operation)
    names = _enter_loop(context, operation, place)
    key = key_of(operation)
    outer_facts = context.facts
    context.facts = _with_counter(context, operation)
    _mark_written(context, operation)
    context.scopes.append(Scope())
    counter = context.fresh(re.sub(r"_\d+$", "", operation.variable))
    context.variables[operation.variable] = (syntax.name(counter), context.depth)
    block(context, key, operation.body, _body_targets(context, operation, key, names))
    _yield_all(context, names, operation.yields)
    body = context.leave()
    context.facts = outer_facts
    if short.is_branch(operation, outer_facts, context.boxes):
        context.append(syntax.assign(counter, bounds[0] if len(bounds) > 1 else syntax.number(0)))
        condition = syntax.binary("<", syntax.name(counter), bounds[min(len(bounds) - 1, 1)])
        context.append(ast.If(condition, body or [ast.Pass()], []))
        return
    hints = short.hints(operation, outer_facts)
    iterator = syntax.call("tl.range" if hints else "range", *bounds, **hints)
    context.append(ast.For(syntax.name(counter), iterator, body or [ast.Pass()], [], lineno=0))


def _range_arguments(frame: Frame, operation: ir.For) -> list[ast.expr]:
    start, stop, step = (frame.scalar(e) for e in (operation.start, operation.stop, operation.step))
    if operation.step == 1:
        return [stop] if operation.start == 0 else [start, stop]
    return [start, stop, step]


def _with_counter(context: Context, operation: ir.For):
    """The facts inside the loop; those that tracing knew are kept."""
    variable, facts = operation.variable, context.facts
    if variable in facts.ranges or operation.bindings or not operation.step.is_constant:
        return facts
    step, start, last = operation.step.constant, operation.start, operation.stop - 1
    multiple = abs(step) if start == const(0) else 1
    if step > 0:
        return facts.bind(variable, start, last, multiple)
    return facts.bind(variable, operation.stop + 1, start)


def _mark_written(context: Context, operation: ir.Operation) -> None:
    """What an earlier iteration stored, or has yet to read, a later one may touch."""
    for nested in ir.blocks(operation):
        for inner in ir.walk(nested):
            if isinstance(inner, ir.Store):
                context.written.add(inner.access.parameter)
            elif isinstance(inner, ir.Apply) and inner.function in ("store_pointer",):
                context.written.add(inner.operands[0].type.dtype.parameter)


def _while(context: Context, operation: ir.While, place: Place) -> None:
    names = _enter_loop(context, operation, place)
    before_key, key = key_of(operation, 0), key_of(operation, 1)
    _mark_written(context, operation)
    first, condition = _condition(context, operation, before_key)
    context.scopes[-1].own |= first.own
    context.scopes[-1].statements += first.statements
    context.scopes.append(Scope())
    block(context, key, operation.body, _body_targets(context, operation, key, names))
    _yield_all(context, names, operation.yields)
    body = context.leave()
    context.append(ast.While(condition, [*body, *first.statements] or [ast.Pass()], []))


def _condition(context: Context, operation: ir.While, key: BlockKey) -> tuple[Scope, ast.expr]:
    """The statements that prepare the condition, to be run before the loop and after each round, and the condition."""
    context.scopes.append(Scope())
    block(context, key, operation.before, Targets())
    condition = functions.typed(context.texts[operation.condition], dtypes.int1)
    return context.scopes.pop(), condition


def _if(context: Context, operation: ir.If, place: Place) -> None:
    condition = functions.typed(context.texts[operation.condition], dtypes.int1)
    names = []
    for result, then, other in zip(operation.results, operation.then_yields, operation.else_yields, strict=True):
        names.append(_target(context, result, place, result.hint or then.hint or other.hint or "chosen"))
    before = set(context.written), {name: set(keys) for name, keys in context.read.items()}
    branches, written, read = [], set(), {}
    for index, (body, yields) in enumerate(
        ((operation.then_body, operation.then_yields), (operation.else_body, operation.else_yields))
    ):
        context.written, context.read = set(before[0]), {name: set(keys) for name, keys in before[1].items()}
        context.scopes.append(Scope())
        key = key_of(operation, index)
        block(context, key, body, _branch_targets(context, key, names, yields))
        _yield_all(context, names, yields)
        branches.append(context.leave())
        written |= context.written
        for name, keys in context.read.items():
            read.setdefault(name, set()).update(keys)
    context.written, context.read = written, read
    for result, name in zip(operation.results, names, strict=True):
        context.texts[result] = Text(syntax.name(name), result.type.lanes)
    then, other = branches
    if not then and not other:
        return
    if not then:
        condition, then, other = syntax.invert(condition), other, []
    context.append(ast.If(condition, then, other))


def _branch_targets(context: Context, key: BlockKey, names: list[str], yields: tuple[ir.Value, ...]) -> Targets:
    """Yields that may take their variable as soon as they are computed: nothing reads it later in the branch."""
    chosen: dict[ir.Value, str] = {}
    for name, yielded in zip(names, yields, strict=True):
        defined_in, position = context.analysis.definitions.get(yielded, (None, -1))
        if defined_in != key or yielded in chosen or _is_literal(context, yielded):
            continue
        held = [value for value, text in context.texts.items() if name in syntax.names_in(text.node)]
        if all(context.analysis.last_read(value, key) <= position for value in held):
            chosen[yielded] = name
    return Targets(chosen)


def _print(context: Context, operation: ir.Print) -> None:
    words = [piece for piece in operation.pieces if isinstance(piece, str)]
    values = [piece for piece in operation.pieces if isinstance(piece, ir.Value)]
    nodes = [functions.typed(context.texts[value], value.type.dtype) for value in values]
    prefix = " ".join(words).encode("ascii", "replace").decode()
    context.run(syntax.call("tl.device_print", prefix or " ", *nodes))

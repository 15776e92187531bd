"""Trace the statements of an application."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ninetoothed import free_names
from ninetoothed.errors import NineToothedError
from ninetoothed.frontend import between, branches, loops, memory, remedies
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.effects import device_assert
from ninetoothed.frontend.expressions import apply, evaluate, local_function
from ninetoothed.frontend.indexing import index
from ninetoothed.frontend.oversights import note_assignment
from ninetoothed.frontend.regions import write
from ninetoothed.frontend.shapes import Mismatch
from ninetoothed.frontend.targets import evaluate_indices, owner_of, storable, store_element
from ninetoothed.frontend.values import UNDEFINED, Cell, Scope
from ninetoothed.frontend.variables import iterate, read, snapshot
from ninetoothed.ir import Value
from ninetoothed.wording import near


@dataclass(frozen=True)
class Returned:
    """The value of a `return` that was reached."""

    value: Any


def run(context: TraceContext, scope: Scope, body: list[ast.stmt]) -> Returned | None:
    """Trace statements until one returns."""
    for statement in body:
        outcome = execute(context, scope, statement)
        if outcome is not None:
            return outcome
    return None


def execute(context: TraceContext, scope: Scope, statement: ast.stmt) -> Returned | None:
    """Trace one statement; an error points at its place."""
    location = scope.parsed.location(statement)
    context.builder.location = location
    rule = _RULES.get(type(statement))
    if rule is None:
        raise context.error(f"an application may not use {remedies.for_syntax(statement)}", location)
    try:
        return rule(context, scope, statement)
    except Mismatch as error:
        raise context.mismatch(error) from None
    except NineToothedError:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, ImportError) as error:
        raise context.error(remedies.of_python(error)) from error


# -- assignment ------------------------------------------------------------------------------------


def _assign(context: TraceContext, scope: Scope, statement: ast.Assign | ast.AnnAssign) -> None:
    if statement.value is not None:
        value = evaluate(context, scope, statement.value)
        for target in statement.targets if isinstance(statement, ast.Assign) else (statement.target,):
            assign(context, scope, target, value)


def _augmented(context: TraceContext, scope: Scope, statement: ast.AugAssign) -> None:
    target = statement.target
    if isinstance(target, ast.Name):
        current = _current(context, scope, target)
        value = apply(context, statement.op, current, evaluate(context, scope, statement.value))
        return assign(context, scope, target, value)
    if not isinstance(target, ast.Subscript):
        text = f"`{ast.unparse(target)}` cannot be changed: an application assigns names and elements"
        raise context.error(f"{text}; assign the result to a name")
    owner = owner_of(context, scope, target.value)
    indices = evaluate_indices(context, scope, target.slice)
    value = apply(context, statement.op, index(context, owner, indices), evaluate(context, scope, statement.value))
    return store_element(context, owner, indices, value)


def _current(context: TraceContext, scope: Scope, target: ast.Name) -> Any:
    cell = scope.cells.get(target.id)
    if cell is None:
        raise context.error(f"{target.id!r} is changed before it has a value; assign it before")
    return read(context, cell)


def assign(context: TraceContext, scope: Scope, target: ast.expr, value: Any) -> None:
    """Assign a name, an element, or several of them. Assigning a tile parameter stores."""
    if isinstance(target, ast.Name):
        assign_name(context, scope, target.id, value)
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(context, scope, target, value)
    elif isinstance(target, ast.Subscript):
        owner = owner_of(context, scope, target.value)
        store_element(context, owner, evaluate_indices(context, scope, target.slice), value)
    else:
        text = ast.unparse(target)
        message = f"`{text}` cannot be assigned: an application assigns names and elements; what a tensor is, its shape"
        raise context.error(f"{message} and its levels, is the arrangement's", scope.parsed.location(target))


def _unpack(context: TraceContext, scope: Scope, target: ast.Tuple | ast.List, value: Any) -> None:
    items = iterate(context, value)
    starred = [i for i, element in enumerate(target.elts) if isinstance(element, ast.Starred)]
    if starred:
        at, rest = starred[0], len(target.elts) - starred[0] - 1
        items = [*items[:at], tuple(items[at : len(items) - rest]), *items[len(items) - rest :]]
    if len(items) != len(target.elts):
        raise context.error(f"{len(items)} values cannot be unpacked into {len(target.elts)} names; give one for each")
    items = [snapshot(context, item) for item in items]
    for element, item in zip(target.elts, items, strict=True):
        assign(context, scope, element.value if isinstance(element, ast.Starred) else element, item)


def assign_name(context: TraceContext, scope: Scope, name: str, value: Any) -> None:
    """Assign a variable; a tile parameter is stored to."""
    cell = scope.cells.get(name)
    if cell is None:
        cell = scope.cells[name] = Cell(name, UNDEFINED)
    value = snapshot(context, value)
    if cell.tile is not None:
        note_assignment(context, scope, name, cell)
        value = storable(context, f"{name!r} is a parameter: it", value)
        value = memory.write(context, memory.target(context, cell.tile), value)
    elif cell.between is not None:
        value = between.fitted(context, cell.between, storable(context, f"{name!r} is a parameter: it", value))
    write(context, cell, _updated(context, cell, context.builder.named(value, name)))


def _updated(context: TraceContext, cell: Cell, value: Any) -> Any:
    """Mark an assignment whose value depends on the variable's old value, lane by lane, for the pass `overhang`."""
    old = cell.value
    are_tiles = all(isinstance(each, Value) and not each.type.is_scalar for each in (old, value))
    are_alike = are_tiles and old.type.lanes == value.type.lanes
    if not are_alike or old is value or not context.builder.depends(value, old):
        return value
    return context.builder.named(context.builder.apply("assign", (old, value)), cell.name)


# -- the rest --------------------------------------------------------------------------------------


def _expression(context: TraceContext, scope: Scope, statement: ast.Expr) -> None:
    evaluate(context, scope, statement.value)


def _return(context: TraceContext, scope: Scope, statement: ast.Return) -> Returned:
    if len(context.write_logs) > scope.depth:  # a region was opened since the function began
        raise context.error(
            "`return` under a loop or an `if` that is decided at run time: nothing leaves a function early; assign a"
            " variable in each branch, or choose with `ntl.where`, and return it in the last line"
        )
    return Returned(None if statement.value is None else evaluate(context, scope, statement.value))


def _function(context: TraceContext, scope: Scope, statement: ast.FunctionDef) -> None:
    if statement.decorator_list:
        raise context.error("a function inside an application has no decorators: it is inlined as it is written")
    assign_name(context, scope, statement.name, local_function(context, scope, statement, statement.name))


def _assert(context: TraceContext, scope: Scope, statement: ast.Assert) -> None:
    message = ast.unparse(statement.test) if statement.msg is None else evaluate(context, scope, statement.msg)
    device_assert(context, evaluate(context, scope, statement.test), message)


def _import(context: TraceContext, scope: Scope, statement: ast.Import | ast.ImportFrom) -> None:
    """Import modules inside an application, when compiling."""
    import importlib

    for alias in statement.names:
        if isinstance(statement, ast.ImportFrom):
            if statement.level or statement.module is None:
                raise context.error(
                    "an application imports modules by their full names, not relative to its own"
                    "; write `from package import name`"
                )
            module = importlib.import_module(statement.module)
            if not hasattr(module, alias.name) and not hasattr(module, "__path__"):
                remedy = near(alias.name, dir(module)) or "import what it has"
                raise context.error(f"module {statement.module!r} has no {alias.name!r}; {remedy}")
            value = getattr(module, alias.name, None) or importlib.import_module(f"{statement.module}.{alias.name}")
            context.note(free_names.of_owner(module, alias.name, value))
        else:
            value = importlib.import_module(alias.name)
            value = value if alias.asname else importlib.import_module(alias.name.split(".")[0])
        scope.cells[alias.asname or alias.name.split(".")[0]] = Cell(alias.name, value)


_RULES: dict[type[ast.AST], Callable[..., Returned | None]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _assign,
    ast.AugAssign: _augmented,
    ast.Expr: _expression,
    ast.Return: _return,
    ast.Pass: lambda context, scope, statement: None,
    ast.FunctionDef: _function,
    ast.Assert: _assert,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.If: branches.if_,
    ast.For: loops.for_,
    ast.While: loops.while_,
}

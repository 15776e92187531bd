"""Find mistakes in an application's text, before any call: those that no argument could mend."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from ninetoothed import language
from ninetoothed.errors import ApplicationError, EmptyKernelWarning
from ninetoothed.frontend import between, remedies
from ninetoothed.frontend.oversights import warn_at
from ninetoothed.frontend.parse import ParsedFunction, assigned_names, parse, parse_application, unwrap
from ninetoothed.frontend.values import MEMORY_ATTRIBUTES
from ninetoothed.ir import SourceLocation
from ninetoothed.language.functions import (
    FUNCTIONS,
    arithmetic,
    elementwise,
    random,
    reductions,
    shapes,
)

# Functions that store nothing.
_PURE = frozenset(
    name
    for name in FUNCTIONS
    for family in (elementwise, arithmetic, shapes, reductions, random)
    if name in vars(family)
)
# What a parameter has whatever it holds: as attributes, and as calls with it.
_DESCRIPTIONS = frozenset({"shape", "dtype", "ndim", "size", *MEMORY_ATTRIBUTES})
_DESCRIBING = frozenset({"len", "zeros_like"})
_BRANCHING = (ast.If, ast.IfExp, ast.While)
_UNKNOWN = object()


def check(name: str, application: Callable[..., Any]) -> None:
    """Raise `ApplicationError` for a name missing from `ninetoothed.language` that every call would read.

    Names inside branches are left to the call: a constexpr may leave the branch out.
    """
    parsed = parse_application(application)
    for statement in parsed.body:
        for node in _always_evaluated(statement):
            if isinstance(node, ast.Attribute) and _resolved(parsed, node.value) is language:
                try:
                    getattr(language, node.attr)
                except AttributeError as error:
                    raise _error(name, str(error), parsed.location(node)) from None
        if any(isinstance(node, ast.Return) for node in ast.walk(statement)):
            return


def stores_nothing(application: Callable[..., Any], parameters: tuple[str, ...]) -> bool:
    """Tell whether an application surely assigns no parameter; False also where only a call can tell."""
    parsed = parse_application(application)
    calls = (node for node in ast.walk(parsed.tree) if isinstance(node, ast.Call))
    names = {argument.arg for argument in ast.walk(parsed.tree.args) if isinstance(argument, ast.arg)} | set(parameters)
    stored = (node for node in ast.walk(parsed.tree) if isinstance(node, ast.Subscript | ast.Attribute))
    is_through_another = any(isinstance(node.ctx, ast.Store) for node in stored)
    is_assigned = bool(names & set(assigned_names(parsed.tree))) or is_through_another
    return not is_assigned and all(_is_pure(parsed, node.func) for node in calls)


def warn_that_nothing_is_stored(name: str, application: Callable[..., Any], parameters: tuple[str, ...]) -> None:
    """Warn of a kernel that does nothing, once for each place in the user's code."""
    parsed = parse_application(application)
    near = ((own, match) for own in assigned_names(parsed.tree) for match in get_close_matches(own, parameters, 1))
    meant = next((f"; {own!r} is a name of its own: did you mean {match!r}?" for own, match in near), "")
    error = _error(
        name,
        "the application stores nothing, so this kernel does nothing: assign the result to one of its parameters"
        f" ({', '.join(parameters)}){meant or remedies.for_a_return(parsed, parameters)}",
        parsed.location(parsed.tree),
    )
    warn_at(application, EmptyKernelWarning, str(error.msg), parsed.location(parsed.tree))


def assigns_first(application: Callable[..., Any], name: str) -> bool:
    """Tell whether an application assigns a parameter in every call, and before it does anything else with it."""
    for statement in parse_application(application).body:
        found = [node for node in ast.walk(statement) if isinstance(node, ast.Name) and node.id == name]
        if found:
            is_stored = all(isinstance(node.ctx, ast.Store) for node in found)
            return isinstance(statement, ast.Assign) and is_stored and found[0] in statement.targets
    return False


def reads_first(application: Callable[..., Any], name: str) -> bool:
    """Tell whether the text of an application reads, or leaves, what a parameter holds before it assigns it."""
    parsed = parse_application(application)
    uses = [*_uses(parsed, parsed.body, name)]
    # Assigned on some ways through the text only: on the others it stays.
    return bool(uses) and _first(uses) is not False


def _first(uses: Iterable[bool | None]) -> bool | None:
    """Return the first use that is sure, if there is one."""
    return next((use for use in uses if use is not None), None)


def _uses(parsed: ParsedFunction, nodes: Iterable[ast.AST | None], name: str) -> Iterator[bool | None]:
    """Yield the uses of a variable's value in the order in which they are evaluated.

    True where it is read, False where it is assigned, None where it is assigned only if a branch or a loop is entered.
    """
    for node in nodes:
        match node:
            case ast.Name(id=own):
                yield from (isinstance(node.ctx, ast.Load),) if own == name else ()
            case ast.Attribute(value=ast.Name(), attr=attribute) if attribute in _DESCRIPTIONS:
                pass
            case ast.FunctionDef() | ast.Lambda() | None:
                pass
            case ast.If(test=head, body=body, orelse=other) | ast.While(test=head, body=body, orelse=other):
                yield from _uses(parsed, (head,), name)
                yield from _uses_of_branches(parsed, (body, other), name)
            case ast.For(target=target, iter=head, body=body):
                yield from _uses(parsed, (head,), name)
                yield from _uses_of_branches(parsed, ([target, *body], []), name)
            case ast.Assign(targets=targets, value=value):
                yield from _uses(parsed, (value, *targets), name)
            case ast.AnnAssign(target=target, value=value):
                yield from _uses(parsed, (value, target) if value is not None else (), name)
            case ast.AugAssign(target=target, value=value):
                yield from (True,) if isinstance(target, ast.Name) and target.id == name else ()
                yield from _uses(parsed, (target, value), name)
            case ast.Call():
                yield from _uses_of_call(parsed, node, name)
            case _:
                yield from _uses(parsed, ast.iter_child_nodes(node), name)


def _uses_of_branches(parsed: ParsedFunction, branches: Iterable[list[Any]], name: str) -> Iterator[bool | None]:
    """Yield the first use of a variable in branches of which one runs; nothing where none uses it."""
    uses = [[*_uses(parsed, branch, name)] for branch in branches]
    if any(uses):
        first = [_first(each) for each in uses]
        yield True if True in first else None if None in first else False


def _uses_of_call(parsed: ParsedFunction, call: ast.Call, name: str) -> Iterator[bool | None]:
    """Yield the uses of a variable by a call; helpers take it by reference."""
    callee = _resolved(parsed, call.func)
    arguments = [(i, each) for i, each in enumerate(call.args)] + [(each.arg, each.value) for each in call.keywords]
    given = {key: each for key, each in arguments if isinstance(each, ast.Name) and each.id == name}
    function = unwrap(callee)
    if (call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")) in _DESCRIBING:
        return
    if callee is between.hold:
        return
    if not isinstance(function, types.FunctionType):
        yield from _uses(parsed, ast.iter_child_nodes(call), name)
        return
    yield from _uses(parsed, (each for key, each in arguments if key not in given), name)
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    for key in given:
        parameter = parameters[key] if isinstance(key, int) and key < len(parameters) else key
        helper = parse(function)
        yield from _uses(helper, helper.body, parameter) if parameter in parameters else ()


def uses_of_memory(application: Callable[..., Any], parameter: str) -> str | None:
    """Return the first use of a parameter, such as `x.source`, that a tile in registers does not have."""
    uses = {f"{parameter}.{attribute}" for attribute in MEMORY_ATTRIBUTES}
    return next((text for text in _texts(application, ast.Attribute) if text in uses), None)


def roams(application: Callable[..., Any], parameter: str) -> bool:
    """Tell whether an application reads elements of a parameter's source, or takes their address, by its name."""
    source, taken = f"{parameter}.source", set(_texts(application, ast.Attribute))
    is_indexed = any(text.startswith(f"{source}[") for text in _texts(application, ast.Subscript))
    return is_indexed or f"{parameter}.data_ptr" in taken or f"{source}.data_ptr" in taken


def _texts(application: Callable[..., Any], kind: type[ast.expr]) -> Iterator[str]:
    return (ast.unparse(node) for node in ast.walk(parse_application(application).tree) if isinstance(node, kind))


def _error(name: str, message: str, place: SourceLocation) -> ApplicationError:
    return ApplicationError.at(f"kernel {name!r}: {message}", place)


def _always_evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a statement that every call evaluates."""
    if isinstance(node, _BRANCHING):
        yield from _always_evaluated(node.test)
    elif isinstance(node, ast.For):
        yield from _always_evaluated(node.iter)
    elif isinstance(node, ast.BoolOp):
        yield from _always_evaluated(node.values[0])
    elif isinstance(node, ast.AnnAssign):
        yield from _always_evaluated(node.value) if node.value is not None else ()
    elif isinstance(node, ast.expr | ast.stmt | ast.keyword) and not isinstance(
        node, ast.Lambda | ast.FunctionDef | ast.ClassDef | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from _always_evaluated(child)


def _resolved(parsed: ParsedFunction, node: ast.expr) -> Any:
    """Return the module, or member of one, that a dotted name stands for; `_UNKNOWN` for anything else."""
    if isinstance(node, ast.Name) and node.id not in _locals(parsed):
        try:
            return parsed.lookup(node.id)
        except KeyError:
            return _UNKNOWN
    if isinstance(node, ast.Attribute):
        owner = _resolved(parsed, node.value)
        if isinstance(owner, types.ModuleType):
            return vars(owner).get(node.attr, _UNKNOWN)
    return _UNKNOWN


def _locals(parsed: ParsedFunction) -> frozenset[str]:
    return frozenset(parsed.function.__code__.co_varnames + parsed.function.__code__.co_cellvars)


def _is_pure(parsed: ParsedFunction, callee: ast.expr) -> bool:
    if not isinstance(callee, ast.Attribute):
        return False
    return callee.attr in _PURE and _resolved(parsed, callee.value) is language

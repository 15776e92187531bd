"""Trace calls: functions of the language, helpers (inlined, parameters by reference), and Python at compile time."""

from __future__ import annotations

import ast
import functools
import inspect
import types
from functools import partial
from typing import Any, cast

from ninetoothed import ir
from ninetoothed.dtypes import DType
from ninetoothed.errors import ApplicationError
from ninetoothed.expr import Expr
from ninetoothed.frontend import between, builtins, libdevice, memory, pointers, remedies
from ninetoothed.frontend.arguments import bind, bind_python, value_of
from ninetoothed.frontend.attributes import attribute
from ninetoothed.frontend.builder import EmissionForbidden
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.operators import integer, is_dynamic, operand
from ninetoothed.frontend.parse import is_foreign, parse, returns_value, unwrap
from ninetoothed.frontend.regions import run_when_compiling
from ninetoothed.frontend.targets import target
from ninetoothed.frontend.values import (
    UNDEFINED,
    Absent,
    BoundMethod,
    Cell,
    InlineFunction,
    Scope,
    SourceRef,
    TileRef,
    name_of,
    shown,
)
from ninetoothed.frontend.variables import outside, starred
from ninetoothed.ir import Value
from ninetoothed.language.exclusions import EXCLUSIONS
from ninetoothed.language.functions import FUNCTIONS, LIBDEVICE, Function
from ninetoothed.language.functions.libdevice import EXCLUSIONS as LEFT_OUT, LibdeviceFunction
from ninetoothed.wording import counted

MAX_DEPTH = 64


def call_node(context: TraceContext, scope: Scope, node: ast.Call) -> Any:
    """Trace a call. Arguments that are plain names are passed as variables, so that the callee may assign them."""
    location = scope.parsed.location(node)
    callee = _callee(context, scope, node.func)
    argument = partial(_argument, context, scope, _changed(context, callee, node))
    args = starred(context, scope, node.args, argument)
    kwargs = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            kwargs.update(context.evaluate(scope, keyword.value))
        else:
            kwargs[keyword.arg] = argument(keyword.value)
    context.builder.location = location
    return call(context, callee, tuple(args), kwargs, scope)


def _callee(context: TraceContext, scope: Scope, node: ast.expr) -> Any:
    """Evaluate what is called. An atomic function as a method is one of elements in memory, not of their values."""
    if not isinstance(node, ast.Attribute) or node.attr not in builtins.UPDATES:
        return context.evaluate(scope, node)
    owner = target(context, scope, node.value)
    context.builder.location = scope.parsed.location(node)
    return attribute(context, owner, node.attr)


def _changed(context: TraceContext, callee: Any, node: ast.Call) -> list[ast.expr]:
    """Return the arguments that a call reads and writes at once: the first one of an atomic function."""
    while isinstance(callee, functools.partial) and not callee.args:
        callee = callee.func
    function = language_function(context, callee)
    if function is None or function.name not in builtins.UPDATES:
        return []
    return [*node.args[:1], *(each.value for each in node.keywords if each.arg == function.parameters[0])]


def _argument(context: TraceContext, scope: Scope, changed: list[ast.expr], node: ast.expr) -> Any:
    if node in changed:
        return target(context, scope, node)
    if isinstance(node, ast.Name):
        cell = scope.find(node.id)
        if cell is not None:
            return cell
    return context.evaluate(scope, node)


def call(context: TraceContext, callee: Any, args: tuple, kwargs: dict, scope: Scope | None = None) -> Any:
    """Call anything that an application can reach."""
    if isinstance(callee, functools.partial):
        return call(context, callee.func, (*callee.args, *args), {**callee.keywords, **kwargs}, scope)
    if isinstance(callee, types.MethodType):
        return call(context, callee.__func__, (callee.__self__, *args), kwargs, scope)
    if isinstance(callee, InlineFunction):
        return _inline(context, callee, args, kwargs)
    if isinstance(callee, between.FusionStep):
        return callee.trace(context, *args)
    language = language_function(context, callee)
    if language is not None:
        return _call_language(context, language, args, kwargs)
    plain = tuple(value_of(context, argument) for argument in args)
    named = {name: value_of(context, argument) for name, argument in kwargs.items()}
    if isinstance(callee, BoundMethod):
        return _method(context, callee, plain, named)
    if isinstance(callee, DType):
        return _call_language(context, FUNCTIONS["cast"], (*plain, callee), named)
    if callee is breakpoint and scope is not None:
        return _breakpoint(context, scope)
    try:
        python = builtins.PYTHON.get(callee)
    except TypeError:
        python = None
    if python is not None:
        return _builtin(context, callee, python, plain, named)
    return _python(context, callee, args, kwargs, plain, named)


def _builtin(context: TraceContext, callee: Any, python: Any, plain: tuple, named: dict) -> Any:
    try:
        inspect.signature(python).bind(context, *plain, **named)
    except TypeError as error:
        _, *names = inspect.signature(python).parameters
        raise context.error(f"`{name_of(callee)}` in an application: {error}; it takes ({', '.join(names)})") from None
    return python(context, *plain, **named)


def _python(
    context: TraceContext, callee: Any, args: tuple, kwargs: dict[str, Any], plain: tuple, named: dict[str, Any]
) -> Any:
    """Inline a Python function that has a source; call any other when compiling, if its arguments are known."""
    function = unwrap(callee)
    if isinstance(function, types.FunctionType) and not is_foreign(function):
        return _inline(context, _helper(context, function), args, kwargs)
    if not callable(callee):
        raise context.error(f"{shown(callee)} cannot be called; functions can, and types such as `ntl.float32`")
    if any(_is_of_the_kernel(argument) for argument in (*plain, *named.values())):
        name = name_of(callee)
        raise context.error(
            f"{name!r} is not a function of the language and cannot run on tiles; {remedies.for_function(name)}"
        )
    try:
        return callee(*(operand(context, a) for a in plain), **{k: operand(context, a) for k, a in named.items()})
    except Exception as error:
        raise context.error(
            f"calling {name_of(callee)!r} when compiling failed: {remedies.of_python(error)}"
        ) from error


def _is_of_the_kernel(value: Any) -> bool:
    """Tell whether a value is or holds a tile or a function of the application, on which Python cannot work."""
    if isinstance(value, tuple | list | dict):
        return any(map(_is_of_the_kernel, value.values() if isinstance(value, dict) else value))
    is_number = isinstance(value, Expr) and value.is_constant
    return not is_number and (is_dynamic(value) or isinstance(value, InlineFunction | BoundMethod | SourceRef))


# -- functions of the language ---------------------------------------------------------------------


def language_function(context: TraceContext, callee: Any) -> Function | None:
    """Return the function of the language that is called, ours or Triton's of that name; None for any other."""
    if isinstance(callee, Function):
        return callee
    module = getattr(callee, "__module__", None) or getattr(getattr(callee, "fn", None), "__module__", None) or ""
    if not isinstance(module, str) or not module.startswith("triton."):
        return None
    name = name_of(getattr(callee, "fn", callee)).removeprefix("_elementwise_")
    if "libdevice" in module and name in LIBDEVICE:
        return LIBDEVICE[name]
    if "libdevice" in module and name in LEFT_OUT:
        raise context.error(f"`libdevice.{name}` is not offered in applications; {LEFT_OUT[name]}")
    if module.startswith("triton.language"):
        if name not in FUNCTIONS:
            instead = EXCLUSIONS.get(name, "see `dir(ninetoothed.language)`")
            raise context.error(f"`triton.language.{name}` is not offered in applications; {instead}")
        return FUNCTIONS[name]
    return FUNCTIONS[name] if name == "cdiv" else None  # `triton.cdiv` is beside the language


def _call_language(context: TraceContext, function: Function, args: tuple, kwargs: dict) -> Any:
    plain = [value_of(context, argument) for argument in args]
    named = {name: value_of(context, argument) for name, argument in kwargs.items() if not name.startswith("_")}
    if isinstance(function, LibdeviceFunction):
        if named or len(plain) != len(function.parameters):
            raise context.error(
                f"`libdevice.{function.name}` takes ({', '.join(function.parameters)}); give them by position"
            )
        return libdevice.function(context, *plain, row=function)
    implementation = builtins.LANGUAGE.get(function.name)
    if implementation is None:
        raise context.error(
            f"`ntl.{function.name}` can be used only as the iterator of a `for` loop"
            f"; write `for i in ntl.{function.name}(n):`"
        )
    return implementation(context, *bind(context, function, plain, named))


def _method(context: TraceContext, method: BoundMethod, args: tuple, kwargs: dict) -> Any:
    owner, name = method.owner, method.name
    if isinstance(owner, Value | ir.Access):
        return _call_language(context, FUNCTIONS["cast" if name == "to" else name], (owner, *args), kwargs)
    if name == "data_ptr":
        return pointers.data_ptr(context, owner.parameter)
    if isinstance(owner, TileRef):
        dim = args[0] if args else kwargs.get("dim")
        return pointers.offsets(context, owner, None if dim is None else _constant(context, dim))
    return _source_method(context, owner, name, *args, **kwargs)


def _source_method(context: TraceContext, owner: SourceRef, name: str, dim: Any = None) -> Any:
    numbers = attribute(context, owner, "strides" if name == "stride" else "shape")
    if dim is None:
        return numbers
    dim = _constant(context, dim)
    if not -len(numbers) <= dim < len(numbers):
        rank, own = counted(len(numbers), "dimension"), context.definition.parameters[owner.parameter].source.name
        raise context.error(f"the source of {own!r} has {rank}: there is no dimension {dim}")
    return numbers[dim]


def _constant(context: TraceContext, value: Any) -> int:
    value = integer(context, value, "a dimension")
    if not isinstance(value, int):
        raise context.error("a dimension must be known when compiling: write a number")
    return value


def _breakpoint(context: TraceContext, scope: Scope) -> None:
    variables = []
    for name, cell in scope.cells.items():
        value: Any = cell.value if cell.value is not None or cell.tile is None else cell.tile
        if isinstance(value, TileRef):
            value = None if memory.is_hierarchical(context, value) else memory.load(context, value)
        if is_dynamic(value):
            value = context.builder.value(value)
        if isinstance(value, Value | bool | int | float | str):
            variables.append((name, value))
    context.builder.emit(ir.Breakpoint(tuple(variables), location=context.builder.location))


# -- inlining --------------------------------------------------------------------------------------


def _helper(context: TraceContext, function: types.FunctionType) -> InlineFunction:
    """Read the source of a helper function."""
    try:
        parsed = parse(function)
    except ApplicationError as error:
        raise context.error(error.msg) from None
    defaults, keyword_defaults = function.__defaults__ or (), function.__kwdefaults__ or {}
    return InlineFunction(parsed.tree, None, parsed, parsed.name, defaults, keyword_defaults)


def _inline(context: TraceContext, function: InlineFunction, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Inline a function. One that only loops over known numbers is run when compiling."""
    are_known = all(map(_is_known, (*args, *kwargs.values())))
    if not context.builder.forbids_emission and are_known and _loops(function.tree):
        try:
            return run_when_compiling(context, partial(_trace, context, function, args, kwargs))
        except EmissionForbidden:
            pass
    return _trace(context, function, args, kwargs)


def _is_known(argument: Any) -> bool:
    if isinstance(argument, Cell):
        return argument.tile is None and argument.value is not UNDEFINED and _is_known(argument.value)
    return not _is_of_the_kernel(argument)


@functools.lru_cache(maxsize=256)
def _loops(tree: ast.AST) -> bool:
    return any(isinstance(node, ast.For | ast.While) for node in ast.walk(tree))


def _trace(context: TraceContext, function: InlineFunction, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Bind parameters as Python does, and trace the body in a scope of its own: names never clash."""
    scope = Scope(
        function.parsed, parent=function.scope, depth=len(context.write_logs), returns=returns_value(function.tree)
    )
    context.call_depth += 1
    if context.call_depth > MAX_DEPTH:
        raise context.error(f"{function.name!r} calls itself; helper functions are inlined and cannot recurse")
    for parameter, argument in bind_python(context, function, args, kwargs).items():
        scope.cells[parameter] = _cell(context, parameter, argument)
    site = context.builder.location
    result = _body(context, scope, function.tree)
    context.builder.location = site
    context.call_depth -= 1
    return result


def _body(context: TraceContext, scope: Scope, tree: Any) -> Any:
    if isinstance(tree, ast.Lambda):
        return context.evaluate(scope, tree.body)
    returned = context.run(scope, tree.body)
    return None if returned is None else returned.value


def _cell(context: TraceContext, name: str, argument: Any) -> Cell:
    if isinstance(argument, Cell):
        return argument
    if isinstance(argument, TileRef | Absent):
        return Cell(name, None, cast(TileRef, argument), depth=len(context.write_logs))
    return Cell(name, outside(context, argument), depth=len(context.write_logs))

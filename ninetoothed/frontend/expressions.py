"""Evaluate the expressions of an application, with one function for each form of syntax."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

from ninetoothed import free_names
from ninetoothed.arrangement.value import mapped
from ninetoothed.dtypes import DType, int1
from ninetoothed.frontend import functions, remedies
from ninetoothed.frontend.attributes import attribute
from ninetoothed.frontend.branches import choose
from ninetoothed.frontend.calls import call_node
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.indexing import index
from ninetoothed.frontend.operators import (
    BINARY,
    binary,
    is_dynamic,
    is_number,
    logical,
    operand,
    truth,
    unary,
)
from ninetoothed.frontend.targets import evaluate_indices
from ninetoothed.frontend.values import MEMORY_ATTRIBUTES, Cell, FormattedText, InlineFunction, Scope, shown
from ninetoothed.frontend.variables import iterate, outside, read, snapshot, starred
from ninetoothed.ir import Value
from ninetoothed.wording import counted


def evaluate(context: TraceContext, scope: Scope, node: ast.expr) -> Any:
    """Evaluate an expression. Naming a parameter gives a handle: it is loaded where its elements are needed."""
    rule = _RULES.get(type(node))
    if rule is None:
        raise context.error(f"an application may not use {remedies.for_syntax(node)}", scope.parsed.location(node))
    return rule(context, scope, node)


def _name(context: TraceContext, scope: Scope, node: ast.Name) -> Any:
    cell = scope.find(node.id)
    if cell is not None:
        return read(context, cell)
    try:
        value = scope.parsed.lookup(node.id)
    except KeyError:
        remedy = remedies.for_name(node.id, scope)
        raise context.error(f"name {node.id!r} is not defined; {remedy}", scope.parsed.location(node)) from None
    context.note(free_names.of_function(scope.parsed.function, node.id, value))
    return outside(context, value)


def _binary(context: TraceContext, scope: Scope, node: ast.BinOp) -> Any:
    lhs, rhs = evaluate(context, scope, node.left), evaluate(context, scope, node.right)
    return apply(context, node.op, lhs, rhs)


def apply(context: TraceContext, op: ast.operator, lhs: Any, rhs: Any) -> Any:
    """Apply a binary operator, `@` among them."""
    if isinstance(op, ast.MatMult):
        return functions.dot(context, lhs, rhs)
    return binary(context, BINARY[type(op)][0], lhs, rhs)


def _logical(context: TraceContext, scope: Scope, node: ast.BoolOp) -> Any:
    name = "and" if isinstance(node.op, ast.And) else "or"
    result = operand(context, evaluate(context, scope, node.values[0]))
    for next_node in node.values[1:]:
        if not is_dynamic(result):
            if bool(result) == (name == "or"):
                return result
            result = operand(context, evaluate(context, scope, next_node))
        else:
            result = _continued(context, name, result, partial(evaluate, context, scope, next_node))
    return result


def _continued(context: TraceContext, name: str, lhs: Any, evaluate_rhs: Callable[[], Any]) -> Any:
    """Trace `and` or `or` whose left side is known only at run time: it decides whether the right side runs."""
    if name == "and":
        return choose(context, lhs, (evaluate_rhs, lambda: lhs), lambda rhs, _: _both(context, name, lhs, rhs))
    return choose(context, lhs, (lambda: lhs, evaluate_rhs), lambda _, rhs: _both(context, name, lhs, rhs))


def _both(context: TraceContext, name: str, lhs: Any, rhs: Any) -> Any:
    """Combine by `and` or `or`: two numbers give one of them, as in Python; all else gives truth values."""
    is_tile = any(isinstance(side, Value) and not side.type.is_scalar for side in (lhs, rhs))
    if is_tile or all(map(_is_truth, (lhs, rhs))):
        return logical(context, name, lhs, rhs)
    return _chosen(context, truth(context, lhs), *((rhs, lhs) if name == "and" else (lhs, rhs)))


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, Value) and value.type.dtype == int1)


def _compare(context: TraceContext, scope: Scope, node: ast.Compare) -> Any:
    result = True
    lhs = evaluate(context, scope, node.left)
    for op, right in zip(node.ops, node.comparators, strict=True):
        rhs = evaluate(context, scope, right)
        outcome = compare(context, op, lhs, rhs)
        result = outcome if result is True else logical(context, "and", result, outcome)
        if result is False:
            return False
        lhs = rhs
    return result


def compare(context: TraceContext, op: ast.cmpop, lhs: Any, rhs: Any) -> Any:
    """Compare two operands. `is`, `in` and comparisons of types are decided when compiling."""
    if isinstance(op, ast.Is | ast.IsNot):
        same = lhs is rhs or (
            isinstance(lhs, DType) and functions.as_dtype(context, rhs) == lhs if _is_dtype(rhs) else False
        )
        return same == isinstance(op, ast.Is)
    if isinstance(op, ast.In | ast.NotIn):
        if is_dynamic(operand(context, lhs)) or is_dynamic(rhs):
            raise context.error("`in` needs values that are known when compiling; compare with `(x == a) | (x == b)`")
        return (lhs in rhs) == isinstance(op, ast.In)
    if isinstance(lhs, DType) and _is_dtype(rhs):
        return (functions.as_dtype(context, rhs) == lhs) == isinstance(op, ast.Eq)
    return binary(context, BINARY[type(op)][0], lhs, rhs)


def _is_dtype(value: Any) -> bool:
    return isinstance(value, DType) or type(value).__name__ == "dtype"


def _conditional(context: TraceContext, scope: Scope, node: ast.IfExp) -> Any:
    condition = operand(context, evaluate(context, scope, node.test))
    if not is_dynamic(condition):
        return evaluate(context, scope, node.body if condition else node.orelse)
    sides = (partial(evaluate, context, scope, side) for side in (node.body, node.orelse))
    return choose(context, condition, sides, lambda *values: _chosen(context, truth(context, condition), *values))


def _chosen(context: TraceContext, condition: Value, then: Any, otherwise: Any) -> Any:
    """Choose one of two values at run time; tuples are chosen item by item."""

    def single(*sides: Any) -> Value:
        for side in sides:
            if not is_dynamic(side) and not is_number(side):
                raise context.error(f"{shown(side)} cannot be chosen at run time; only tiles and numbers can")
        return functions.where(context, condition, *sides)

    return mapped(single, then, otherwise)


def _tuple(context: TraceContext, scope: Scope, node: ast.Tuple | ast.List) -> Any:
    return tuple(starred(context, scope, node.elts, lambda item: snapshot(context, evaluate(context, scope, item))))


def _dict(context: TraceContext, scope: Scope, node: ast.Dict) -> Any:
    if None in node.keys:
        raise context.error("a dict in an application names its keys: write them out instead of `**`")
    pairs = ((k, v) for k, v in zip(node.keys, node.values, strict=True) if k is not None)
    return {evaluate(context, scope, k): evaluate(context, scope, v) for k, v in pairs}


def _comprehension(context: TraceContext, scope: Scope, node: ast.ListComp | ast.GeneratorExp) -> Any:
    """Unroll a comprehension into a tuple."""
    items: list = []

    def generate(remaining: Any) -> Any:
        if not remaining:
            items.append(snapshot(context, evaluate(context, inner, node.elt)))
            return
        first, *rest = remaining
        for item in iterate(context, evaluate(context, inner, first.iter)):
            bind(context, inner, first.target, item)
            conditions = [operand(context, evaluate(context, inner, test)) for test in first.ifs]
            if any(is_dynamic(condition) for condition in conditions):
                raise context.error(
                    "a comprehension's `if` must be known when compiling; choose with `ntl.where`",
                    scope.parsed.location(node),
                )
            if all(conditions):
                generate(rest)

    inner = Scope(scope.parsed, parent=scope, depth=scope.depth)
    generate(node.generators)
    return tuple(items)


def bind(context: TraceContext, scope: Scope, target: ast.expr, value: Any) -> None:
    """Bind the targets of a comprehension to fresh local names."""
    if isinstance(target, ast.Name):
        scope.cells[target.id] = Cell(target.id, value)
        return
    assert isinstance(target, ast.Tuple | ast.List), "Python's grammar has nothing else here"
    for element, item in zip(target.elts, iterate(context, value), strict=True):
        bind(context, scope, element, item)


_CONVERSIONS: dict[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}


def _text(context: TraceContext, scope: Scope, node: ast.JoinedStr) -> Any:
    """Join an f-string's pieces; computed values stay pieces, for `print`."""
    pieces: list = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            pieces.append(part.value)
            continue
        assert isinstance(part, ast.FormattedValue)
        value = operand(context, evaluate(context, scope, part.value))
        if is_dynamic(value):
            pieces.append(value)
        else:
            form = evaluate(context, scope, part.format_spec) if part.format_spec else ""
            convert = _CONVERSIONS.get(part.conversion)
            pieces.append(format(value if convert is None else convert(value), form))
    return FormattedText(tuple(pieces)) if any(is_dynamic(piece) for piece in pieces) else "".join(pieces)


def local_function(
    context: TraceContext, scope: Scope, node: ast.Lambda | ast.FunctionDef, name: str
) -> InlineFunction:
    """Return a function that the application defines, with its defaults as they are now."""
    spec = node.args
    defaults = tuple(evaluate(context, scope, default) for default in spec.defaults)
    named = {
        argument.arg: evaluate(context, scope, default)
        for argument, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
        if default is not None
    }
    return InlineFunction(node, scope, scope.parsed, name, defaults, named)


def _named(context: TraceContext, scope: Scope, node: ast.NamedExpr) -> Any:
    value = evaluate(context, scope, node.value)
    context.assign(scope, node.target, value)
    return value


# -- attributes and indices ------------------------------------------------------------------------


def _attribute(context: TraceContext, scope: Scope, node: ast.Attribute) -> Any:
    cell = scope.find(node.value.id) if isinstance(node.value, ast.Name) else None
    place = cell.tile if cell is not None and node.attr in MEMORY_ATTRIBUTES else None
    owner = evaluate(context, scope, node.value) if place is None else place
    context.builder.location = scope.parsed.location(node)
    return outside(context, attribute(context, owner, node.attr))


def _subscript(context: TraceContext, scope: Scope, node: ast.Subscript) -> Any:
    owner = evaluate(context, scope, node.value)
    indices = evaluate_indices(context, scope, node.slice)
    context.builder.location = scope.parsed.location(node)
    if isinstance(owner, dict | str | tuple | list | range):
        return _of_python(context, owner, indices, ast.unparse(node.value))
    return index(context, owner, indices)


def _of_python(context: TraceContext, owner: Any, indices: tuple, text: str) -> Any:
    key = indices[0] if len(indices) == 1 else indices
    if is_dynamic(key):
        raise context.error(f"`{text}` is a Python sequence: it is indexed with numbers that are known when compiling")
    try:
        return outside(context, owner[key])
    except IndexError:
        size = counted(len(owner), "item")
        raise context.error(f"`{text}` has {size}: there is none at index {key}") from None
    except (KeyError, TypeError) as error:
        raise context.error(f"`{text}` cannot be indexed so: {remedies.of_python(error)}") from None


_RULES: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Name: _name,
    ast.Constant: lambda context, scope, node: node.value,
    ast.BinOp: _binary,
    ast.UnaryOp: lambda context, scope, node: unary(context, node.op, evaluate(context, scope, node.operand)),
    ast.BoolOp: _logical,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.Tuple: _tuple,
    ast.List: _tuple,
    ast.Dict: _dict,
    ast.ListComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.JoinedStr: _text,
    ast.Lambda: partial(local_function, name="lambda"),
    ast.NamedExpr: _named,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Call: call_node,
}

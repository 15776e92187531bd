"""Python syntax: the emitted kernel is built as trees and printed once."""

from __future__ import annotations

import ast
import itertools
import json
import keyword
import math
import re

LINE_LENGTH = 120

_OPERATORS = {
    "+": ast.Add,
    "-": ast.Sub,
    "*": ast.Mult,
    "/": ast.Div,
    "//": ast.FloorDiv,
    "%": ast.Mod,
    "&": ast.BitAnd,
    "|": ast.BitOr,
    "^": ast.BitXor,
    "<<": ast.LShift,
    ">>": ast.RShift,
}
_COMPARISONS = {"==": ast.Eq, "!=": ast.NotEq, "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE}

# Names that the emitted text itself uses, and builtins that a reader would not want shadowed.
RESERVED = frozenset(
    {*keyword.kwlist, "triton", "tl", "libdevice", "range", "float", "whole_power"}
    | {"abs", "all", "any", "bool", "filter", "hash", "id", "int", "len", "map", "max", "min", "next", "pow", "print"}
    | {"round", "slice", "sorted", "str", "sum", "tuple", "type", "zip"}
)


def name(identifier: str) -> ast.expr:
    """Make a name, or a dotted path."""
    head, *rest = identifier.split(".")
    node: ast.expr = ast.Name(head)
    for attribute in rest:
        node = ast.Attribute(node, attribute)
    return node


def number(value: int | float | bool) -> ast.expr:
    """Make a literal; a number that has none (`inf`) is `float("inf")`."""
    if isinstance(value, float) and not math.isfinite(value):
        return call("float", str(value))
    if not isinstance(value, bool) and (value < 0 or math.copysign(1, value) < 0):
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def literal(value) -> ast.expr:
    """Make a number, string, None, or tuple of them."""
    if isinstance(value, tuple | list):
        return ast.Tuple([literal(item) for item in value])
    if isinstance(value, str):
        return ast.Name(json.dumps(value))  # in double quotes, which `unparse` does not give
    if value is None:
        return ast.Constant(value)
    return number(value)


def call(function: str | ast.expr, *arguments, **keywords) -> ast.expr:
    """Make a call; keywords that are None are left out."""
    function = name(function) if isinstance(function, str) else function
    kept = [ast.keyword(key, _node(value)) for key, value in keywords.items() if value is not None]
    return ast.Call(function, [_node(argument) for argument in arguments], kept)


def method(owner: ast.expr, function: str, *arguments) -> ast.expr:
    return call(ast.Attribute(owner, function), *arguments)


def binary(operator: str, lhs: ast.expr, rhs: ast.expr) -> ast.expr:
    if operator in _COMPARISONS:
        return ast.Compare(lhs, [_COMPARISONS[operator]()], [rhs])
    return ast.BinOp(lhs, _OPERATORS[operator](), rhs)


def chain(operator: str, operands: list[ast.expr]) -> ast.expr:
    """Make `a + b + c`; the operands must not be empty."""
    result, *rest = operands
    for operand in rest:
        result = binary(operator, result, operand)
    return result


def negate(operand: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.USub(), operand)


def negated(condition: ast.expr) -> ast.expr:
    """Negate a condition that may be known when compiling: `~` of Python's `True` gives -2."""
    return ast.UnaryOp(ast.Not(), condition)


def invert(operand: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Invert(), operand)


def along(vector: ast.expr, axis: int, rank: int) -> ast.expr:
    """Make a vector axis `axis` of a tile of `rank` axes: `v[:, None]`."""
    if rank == 1:
        return vector
    return new_axes(vector, [i == axis for i in range(rank)])


def new_axes(operand: ast.expr, kept: list[bool]) -> ast.expr:
    """Make `operand[:, None, ...]`: a colon for each axis kept, None for each new one."""
    parts: list[ast.expr] = [ast.Slice() if keep else ast.Constant(None) for keep in kept]
    return ast.Subscript(operand, ast.Tuple(parts) if len(parts) > 1 else parts[0])


def assign(target: str | tuple[str, ...], value: ast.expr) -> ast.stmt:
    node = name(target) if isinstance(target, str) else ast.Tuple([name(item) for item in target])
    return ast.Assign([node], value, lineno=0)


def names_in(node: ast.AST) -> frozenset[str]:
    return frozenset(child.id for child in ast.walk(node) if isinstance(child, ast.Name))


def identifier(text: str) -> str:
    """Turn a text into a Python identifier."""
    cleaned = re.sub(r"\W", "_", text) or "value"
    return f"_{cleaned}" if cleaned[0].isdigit() else cleaned


def text_of(node: ast.AST) -> str:
    """Return the text of a tree in which a node may occur twice.

    `ast.unparse` remembers by node whether it needs parentheses, and would mix up the two.
    """
    return ast.unparse(_apart(node))


def _apart(value):
    """Copy a tree, so that no node occurs twice."""
    if isinstance(value, ast.AST):
        return type(value)(**{name: _apart(field) for name, field in ast.iter_fields(value)})
    return [*map(_apart, value)] if isinstance(value, list | tuple) else value


def function(title: str, parameters: list[str], body: list[ast.stmt], decorator: str = "triton.jit") -> str:
    """Print a function; one parameter a line where they do not fit into one."""
    header = f"def {title}({', '.join(parameters)}):"
    if len(header) > LINE_LENGTH:
        listed = "".join(f"    {parameter},\n" for parameter in parameters)
        header = f"def {title}(\n{listed}):"
    return "\n".join([f"@{decorator}", header, *_lines(body, 1)]) + "\n"


def _lines(statements: list[ast.stmt], depth: int) -> list[str]:
    """Print statements, and break lines that are too long."""
    indent = "    " * depth
    lines: list[str] = []
    for statement in statements:
        match statement:
            case ast.For():
                header = f"for {text_of(statement.target)} in "
                lines += _broken(header, statement.iter, ":", indent) + _lines(statement.body, depth + 1)
            case ast.While():
                lines += _broken("while ", statement.test, ":", indent) + _lines(statement.body, depth + 1)
            case ast.If():
                lines += _broken("if ", statement.test, ":", indent) + _lines(statement.body, depth + 1)
                if statement.orelse:
                    lines += [f"{indent}else:", *_lines(statement.orelse, depth + 1)]
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                lines += _broken(", ".join(map(text_of, targets)) + " = ", value, "", indent)
            case ast.Assign(targets=[target], value=value):
                lines += _broken(f"{text_of(target)} = ", value, "", indent)
            case ast.Return(value=ast.expr() as value):
                lines += _broken("return ", value, "", indent)
            case ast.Expr(value=value):
                lines += _broken("", value, "", indent)
            case _:
                lines.append(indent + text_of(statement))
    return lines


def _broken(head: str, node: ast.expr, tail: str, indent: str) -> list[str]:
    """Print `head node tail`; where it is too long, a call's arguments or a sum's operands on lines of their own."""
    text = ", ".join(map(text_of, node.elts)) if isinstance(node, ast.Tuple) else text_of(node)
    line = f"{indent}{head}{text}{tail}"
    inner = indent + "    "
    if len(line) <= LINE_LENGTH:
        return [line]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_long(head, node.func, indent):
        rest = text_of(ast.Call(ast.Name(f".{node.func.attr}"), node.args, node.keywords))
        return _broken(head, node.func.value, f"{rest}{tail}", indent)
    if isinstance(node, ast.Call):
        arguments = [_argument(argument, inner) for argument in node.args]
        arguments += [_broken(f"{item.arg}=", item.value, ",", inner) for item in node.keywords]
        return [f"{indent}{head}{text_of(node.func)}(", *itertools.chain(*arguments), f"{indent}){tail}"]
    if isinstance(node, ast.BinOp):
        return [f"{indent}{head}(", *_chain_lines(node, inner), f"{indent}){tail}"]
    if isinstance(node, ast.List):
        items = (_argument(item, inner) for item in node.elts)
        return [f"{indent}{head}[", *itertools.chain(*items), f"{indent}]{tail}"]
    return [line]


def _is_long(head: str, function: ast.Attribute, indent: str) -> bool:
    """Tell whether a method call must be broken inside its object, whose line is too long already."""
    return isinstance(function.value, ast.Call) and len(f"{indent}{head}{text_of(function)}(") > LINE_LENGTH


def _argument(node: ast.expr, indent: str) -> list[str]:
    """Print a positional argument, which may be broken at its operators without parentheses."""
    if isinstance(node, ast.Tuple):
        line = f"{indent}{text_of(node)},"
        items = (_argument(item, indent + "    ") for item in node.elts)
        return [line] if len(line) <= LINE_LENGTH else [f"{indent}(", *itertools.chain(*items), f"{indent}),"]
    lines = _broken("", node, ",", indent)
    if len(lines) == 1 or not isinstance(node, ast.BinOp):
        return lines
    lines = _chain_lines(node, indent)
    return [*lines[:-1], f"{lines[-1]},"]


def _chain_lines(node: ast.BinOp, indent: str) -> list[str]:
    first, *rest = _operands(node, type(node.op))
    symbol = next(symbol for symbol, operator in _OPERATORS.items() if isinstance(node.op, operator))
    return [
        *_broken("", first, "", indent),
        *(line for operand in rest for line in _broken(f"{symbol} ", operand, "", indent)),
    ]


def _operands(node: ast.expr, operator: type) -> list[ast.expr]:
    """Return the operands of a chain of one operator, each with the parentheses that it needs there."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, operator):
        return [*_operands(node.left, operator), _grouped(node.right, operator)]
    return [_grouped(node, operator)]


def _grouped(node: ast.expr, operator: type) -> ast.expr:
    """Return an operand with the parentheses that it needs beside the operator."""
    _, _, beside = text_of(ast.BinOp(ast.Name("_"), operator(), node)).split(" ", 2)
    return node if beside == text_of(node) else ast.Name(beside)


def _node(value) -> ast.expr:
    return value if isinstance(value, ast.expr) else literal(value)

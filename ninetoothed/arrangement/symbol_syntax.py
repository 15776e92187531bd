"""Read sizes as they are written: Python's expressions over names and integers, and their canonical form."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from ninetoothed import expr as algebra
from ninetoothed.errors import arrangement_error as _error
from ninetoothed.expr import Expr, const, maximum, minimum, var

_OPERATIONS: dict[type[ast.operator], Callable[[Expr, Expr], Expr]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_FUNCTIONS: dict[str, Callable[..., Expr]] = {"min": minimum, "max": maximum, "cdiv": algebra.cdiv}


def number(value: int) -> ast.expr:
    """Return the syntax of an integer: a negative one is no literal."""
    return ast.Constant(value) if value >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-value))


def parse(source: str) -> ast.expr:
    """Parse a text; raises `ArrangementError` for one that is no such expression."""
    try:
        node = ast.parse(source.strip(), mode="eval").body
        canonical(node)
    except SyntaxError:
        remedy = 'write for example Symbol("BLOCK_SIZE") or Symbol("cdiv(n, 2)")'
        raise _error(f"`{source}` is no expression over names and integers", remedy) from None
    except TypeError as error:
        raise _error(f"`{source}` is no expression over names and integers", str(error)) from None
    return node


def names(node: ast.AST) -> Iterator[ast.Name]:
    """Yield the names in an expression, those of functions apart."""
    if isinstance(node, ast.Name):
        yield node
    for child in (*getattr(node, "args", ()), *(getattr(node, a, None) for a in ("left", "right", "operand"))):
        if child is not None:
            yield from names(child)


def canonical(node: ast.AST) -> Expr:
    """Return the canonical form of an expression. Raises `TypeError` for syntax that sizes may not contain."""
    if isinstance(node, ast.Name):
        return var(node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return const(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -canonical(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](canonical(node.left), canonical(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and node.args:
        return _FUNCTIONS[node.func.id](*map(canonical, node.args))
    raise TypeError(f"`{ast.unparse(node)}` is not one of + - * // % min max cdiv")

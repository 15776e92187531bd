"""From a Python function to its syntax tree, with the places of its names: source text in, nothing executed."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import textwrap
import types
from dataclasses import dataclass
from typing import Any

from ninetoothed.errors import ApplicationError
from ninetoothed.ir import SourceLocation


@dataclass(frozen=True, eq=False)
class ParsedFunction:
    """A function's tree and what its free names mean; `lines` are the lines of its file that hold it."""

    function: types.FunctionType
    tree: ast.FunctionDef | ast.Lambda
    file: str
    lines: dict[int, str]
    column_shift: int

    @property
    def name(self) -> str:
        return self.function.__name__

    def location(self, node: ast.AST) -> SourceLocation:
        line = getattr(node, "lineno", self.tree.lineno)
        column = getattr(node, "col_offset", 0) + self.column_shift
        return SourceLocation(self.file, line, column, self.lines.get(line, ""))

    def lookup(self, name: str) -> Any:
        """The value of a free name: closure, then globals, then builtins. Raises KeyError."""
        function = self.function
        if name in function.__code__.co_freevars:
            cell = function.__closure__[function.__code__.co_freevars.index(name)]
            try:
                return cell.cell_contents
            except ValueError:
                raise KeyError(name) from None
        if name in function.__globals__:
            return function.__globals__[name]
        return vars(builtins)[name]


def unwrap(function: Any) -> Any:
    """The Python function behind a `triton.jit` function or a decorator that tells what it wraps."""
    while not inspect.isfunction(function):
        inner = getattr(function, "fn", None) or getattr(function, "__wrapped__", None)
        if inner is None:
            break
        function = inner
    return inspect.unwrap(function) if inspect.isfunction(function) else function


@functools.cache
def parse(function: types.FunctionType) -> ParsedFunction:
    """Read and parse a function's source; a named error where Python kept none."""
    try:
        lines, start = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function) or function.__code__.co_filename
    except (OSError, TypeError) as error:
        name = getattr(function, "__qualname__", repr(function))
        raise ApplicationError(
            f"the source of {name!r} cannot be read ({error}); an application and its helper functions must come"
            " from a file, a notebook cell, or code that is registered with `linecache`"
        ) from error
    start = max(start, 1)
    text = "".join(lines)
    shift = len(text) - len(text.lstrip(" \t"))
    tree = _find(_parse_text(textwrap.dedent(text), text), function, start)
    ast.increment_lineno(tree, start - 1)
    numbered = {start + i: line.rstrip("\n") for i, line in enumerate(lines)}
    return ParsedFunction(function, tree, file, numbered, shift)


def _parse_text(dedented: str, original: str) -> ast.AST:
    try:
        return ast.parse(dedented)
    except SyntaxError:
        # A lambda in the middle of a call: its first line alone is no statement, so let parentheses hold it.
        start = original.index("lambda")
        for end in range(len(original), start, -1):
            try:
                tree = ast.parse(original[start:end].strip(), mode="eval")
            except SyntaxError:
                continue
            for node in ast.walk(tree):
                if hasattr(node, "col_offset"):
                    node.col_offset += start
            return tree
        raise


def _find(tree: ast.AST, function: types.FunctionType, start: int) -> ast.FunctionDef | ast.Lambda:
    """The tree of `function` among those on its lines; lambdas that share a line are told apart by their code."""
    wanted = ast.Lambda if function.__name__ == "<lambda>" else ast.FunctionDef
    found = [node for node in ast.walk(tree) if isinstance(node, wanted)]
    if wanted is ast.FunctionDef:
        return next(node for node in found if node.name == function.__name__)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    matching = [node for node in found if tuple(a.arg for a in node.args.args) == names]
    same_code = [node for node in matching if _code_of(node) == function.__code__.co_code]
    return (same_code or matching)[0]


def _code_of(node: ast.Lambda) -> bytes:
    module = compile(ast.Expression(body=node), "<lambda>", "eval")
    return next(const for const in module.co_consts if isinstance(const, types.CodeType)).co_code


def mentioned_names(application: Any) -> frozenset[str]:
    """The parameters of an application that its own text mentions, under the names that callers of `make` see."""
    function = application
    while isinstance(function, functools.partial):
        function = function.func
    tree = parse(unwrap(getattr(function, "__func__", function))).tree
    body = tree.body if isinstance(tree.body, list) else [tree.body]
    names = {node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    if tree.args.vararg is not None and tree.args.vararg.arg in names:
        signature = inspect.signature(function)
        names |= {f"{tree.args.vararg.arg}_{i}" for i in range(64)} | set(signature.parameters)
    return frozenset(names)

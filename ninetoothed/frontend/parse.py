"""Read a Python function as a syntax tree, with the places of its names; nothing is executed."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import textwrap
import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ninetoothed.errors import ApplicationError
from ninetoothed.frontend.code_objects import traits, was_made_of
from ninetoothed.ir import SourceLocation


@dataclass(frozen=True, eq=False)
class ParsedFunction:
    """The syntax tree of a function, the values of its free names, and the lines of its file."""

    function: types.FunctionType
    tree: ast.FunctionDef | ast.Lambda
    file: str
    lines: dict[int, str]
    column_shift: int

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    @property
    def body(self) -> list[Any]:
        """The statements of a function, or the expression of a lambda."""
        return self.tree.body if isinstance(self.tree.body, list) else [self.tree.body]

    def location(self, node: ast.AST) -> SourceLocation:
        """Return the place of a node in the user's file."""
        line = getattr(node, "lineno", self.tree.lineno)
        column = getattr(node, "col_offset", 0) + self.column_shift
        return SourceLocation(self.file, line, column, self.lines.get(line, ""))

    def lookup(self, name: str) -> Any:
        """Return the value of a free name: closure, then globals, then builtins. Raises KeyError."""
        function = self.function
        if name in function.__code__.co_freevars:
            cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
            try:
                return cell.cell_contents
            except ValueError:
                raise KeyError(name) from None
        if name in function.__globals__:
            return function.__globals__[name]
        return vars(builtins)[name]


# Modules of PyTorch whose decorators (`no_grad` and its like, `compiler.disable`) return what the function returns that
# they wrap. In a module of another name they would be inlined as written, and refused for what they do beside.
_TRANSPARENT = ("torch.utils._contextlib", "torch._dynamo.eval_frame")


def unwrap(function: Any) -> Any:
    """Return the function that `triton.jit`, `functools.cache` and the like wrap; other decorators stay."""
    while True:
        if inspect.isfunction(function):
            is_transparent = function.__globals__.get("__name__") in _TRANSPARENT
            inner = getattr(function, "__wrapped__", None) if is_transparent else None
        elif isinstance(function, functools._lru_cache_wrapper):
            inner = function.__wrapped__
        else:
            inner = getattr(function, "fn", None) if type(function).__module__.startswith("triton.") else None
        if inner is None:
            return function
        function = inner


def is_foreign(function: types.FunctionType) -> bool:
    """Tell whether a function belongs to a library that works on numbers: it is called, and not inlined."""
    module, _, rest = (function.__module__ or "").partition(".")
    if module == "ninetoothed_ops":  # its operators take tensors; its kernels' applications are helpers as any
        return rest.partition(".")[0] == "ops"
    return module in ("torch", "numpy", "math", "functools", "operator", "typing", "dataclasses", "enum", "ninetoothed")


def called(application: Any) -> Any:
    """Return the function that calling an application runs: itself, or the `__call__` of an object."""
    if isinstance(application, functools.partial):
        return functools.partial(called(application.func), *application.args, **application.keywords)
    is_plain = inspect.isroutine(application) or unwrap(application) is not application
    return application if is_plain or not inspect.isfunction(type(application).__call__) else application.__call__


def signature(application: Any) -> inspect.Signature:
    """Return the signature of the function itself, and not of one that it wraps."""
    if isinstance(application, functools.partial):
        function, args, kwargs = unwrap(application.func), application.args, application.keywords
        application = functools.partial(function, *args, **kwargs)
    return inspect.signature(unwrap(application), follow_wrapped=False)


def parse(function: types.FunctionType) -> ParsedFunction:
    """Read and parse a function's source. Raises `ApplicationError` where Python kept none."""
    # A notebook that reloads modules gives a function other code.
    return _parse(function, getattr(function, "__code__", None))


@functools.lru_cache(maxsize=256)
def _parse(function: types.FunctionType, code: types.CodeType) -> ParsedFunction:
    tree: ast.FunctionDef | ast.Lambda
    try:
        found = _lines(function, code)
        if code.co_name == "<lambda>":
            lines, start, shift = found, 1, 0
            tree = _lambda_of(_parsed("".join(lines)), code)
        else:
            start = max(code.co_firstlineno, 1)
            lines = inspect.getblock(found[start - 1 :])
            tree, shift = _definition_of(lines, start, function)
    except ApplicationError:
        raise
    except (AttributeError, OSError, TypeError, SyntaxError) as error:
        name = getattr(function, "__qualname__", repr(function))
        raise ApplicationError(
            f"the source of {name!r} cannot be read ({error}); an application and its helper functions must come"
            " from a file, a notebook cell, or code that is registered with `linecache`"
        ) from error
    if not was_made_of(code, "".join(found)):
        raise ApplicationError(
            f"the source of {function.__qualname__!r} is not what its code was made of: the file was edited after it"
            " was imported, or a tool rewrote the code; import it anew, in a new process, say, and without the tool",
            code.co_filename,
            code.co_firstlineno,
        )
    numbered = {i: lines[i - start].rstrip("\n") for i in range(tree.lineno, _end(tree)[0] + 1)}
    return ParsedFunction(function, tree, code.co_filename, numbered, shift)


def _lines(function: types.FunctionType, code: types.CodeType) -> list[str]:
    """Read the file or cell of a function. Raises OSError where Python kept none.

    `inspect` does too, but looks through all modules for that of a notebook's cell or a generated text: milliseconds
    each time. Where a function has `__wrapped__`, it reads the wrapped one.
    """
    file, scope = code.co_filename, function.__globals__
    linecache.checkcache(file)
    # What loaded a module knows its text, in an archive too; that of a text which a module executes is another's.
    lines = linecache.getlines(file, scope if scope.get("__file__") == file else None)
    # From Python 3.13 on, it knows where the interpreter keeps what was typed.
    lines = lines or inspect.findsource(code)[0]
    if code.co_firstlineno > len(lines):
        raise OSError("its line is not in the file")
    return lines


def _definition_of(lines: list[str], start: int, function: types.FunctionType) -> tuple[ast.FunctionDef, int]:
    """Parse the lines of a `def`: return its tree, and by how many columns it is indented."""
    text = "".join(lines)
    tree = ast.parse(textwrap.dedent(text))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    definition = next((node for node in found if node.name == function.__code__.co_name), None)
    if definition is None:
        raise OSError("no definition of that name is at its line")
    ast.increment_lineno(definition, start - 1)
    return definition, len(text) - len(text.lstrip(" \t"))


@functools.lru_cache(maxsize=8)
def _parsed(text: str) -> ast.Module:
    """Parse a whole file: the lines of a lambda alone need not be a statement."""
    return ast.parse(text)


def _lambda_of(tree: ast.Module, code: types.CodeType) -> ast.Lambda:
    """Find the lambda of a code object among those on its line: by positions of instructions, else by comparing."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno]
    places = _places(code)
    if len(found) > 1 and places:
        # The lambdas around every instruction are nested: the innermost begins last.
        first, last = min(start for start, _ in places), max(end for _, end in places)
        around = (node for node in found if _start(node.body) <= first and last <= _end(node.body))
        found = sorted(around, key=lambda node: _start(node.body))[-1:]
    if len(found) > 1:
        found = [node for node in found if traits(_code_of(node, code)) == traits(code)]
    if not found:
        raise ApplicationError(
            "which of several lambdas on one line is meant cannot be told; put each on a line of its own",
            code.co_filename,
            code.co_firstlineno,
        )
    return found[0]


def _places(code: types.CodeType) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return start and end, as (line, column), of each instruction that has such; none before Python 3.11."""
    positions = code.co_positions() if hasattr(code, "co_positions") else ()
    return [((first, start), (last, end)) for first, last, start, end in positions if end]


def _start(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def _code_of(node: ast.Lambda, like: types.CodeType) -> types.CodeType:
    """Compile a lambda inside a function that has the names that `like` closes over."""
    around = ast.parse(f"lambda {', '.join(like.co_freevars)}: 0", mode="eval")
    assert isinstance(around.body, ast.Lambda)
    around.body.body = node
    code = compile(around, like.co_filename, "eval", dont_inherit=True)
    for _ in range(2):
        code = next(const for const in code.co_consts if isinstance(const, types.CodeType))
    return code


def mentioned_names(application: Any, names: tuple[str, ...], besides: Iterable[str] = ()) -> frozenset[str]:
    """Return the parameters that an application's own text mentions, by the names that users of `make` see.

    besides: attributes of a parameter that do not count as mentioning it.
    """
    parsed = parse_application(application)
    nodes = [node for statement in parsed.body for node in ast.walk(statement)]
    owners = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr in besides}
    mentioned = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in owners}
    vararg = parsed.tree.args.vararg
    return frozenset(names) if vararg is not None and vararg.arg in mentioned else frozenset(names) & mentioned


def assigned_names(tree: ast.AST) -> tuple[str, ...]:
    """Return the names that a syntax tree assigns, or whose elements it assigns, in the order of the text."""
    targets = (node for node in ast.walk(tree) if isinstance(getattr(node, "ctx", None), ast.Store))
    names = []
    for target in targets:
        while isinstance(target, ast.Subscript | ast.Attribute):
            target = target.value
        names += [target.id] if isinstance(target, ast.Name) else []
    return tuple(dict.fromkeys(names))


@functools.lru_cache(maxsize=256)
def returns_value(tree: ast.AST) -> bool:
    """Tell whether a function returns a value somewhere; functions inside it do not count."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            return True
        inner = (each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.FunctionDef | ast.Lambda))
        pending.extend(inner)
    return False


def parse_application(application: Any) -> ParsedFunction:
    """Parse the function behind an application: partials, methods and decorators are unwrapped."""
    function = application
    while isinstance(function, functools.partial):
        function = function.func
    return parse(unwrap(getattr(function, "__func__", function)))

"""Write ninetoothed/language/__init__.pyi: the names of `ninetoothed.language` for editors and type checkers.

python docs/stub.py
"""

import ast
import inspect
import pathlib
import textwrap

from ninetoothed import dtypes, language
from ninetoothed.language import types
from ninetoothed.language.functions import (
    FAMILIES,
    FUNCTIONS,
    LIBDEVICE,
    arithmetic,
    elementwise,
    memory,
    reductions,
    shapes,
    sorting,
)

FILE = pathlib.Path(language.__file__).with_suffix(".pyi")
WIDTH = 120
HEADER = '''"""{docstring}"""

# Written by `python docs/stub.py` from the rows of `ninetoothed.language`; do not edit.

import enum
from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol, TypeAlias, Union, overload

import torch

from ninetoothed.dtypes import DType
'''
# Those of their functions that take a tile first are its methods, too.
OF_TILES = (elementwise, arithmetic, shapes, reductions, sorting, memory)


def definition(name, parameters, returns, docstring=None, indent="", decorator=None):
    """The text of a function without a body, wrapped as the formatter wraps it."""
    ending = f") -> {returns}:" + ("" if docstring else " ...")
    line = f"{indent}def {name}({', '.join(parameters)}{ending}"
    if len(line) > WIDTH:
        inner = f"{indent}    {', '.join(parameters)}"
        if len(inner) > WIDTH:
            inner = "\n".join(f"{indent}    {parameter}," for parameter in parameters)
        line = f"{indent}def {name}(\n{inner}\n{indent}{ending}"
    lines = [f"{indent}@{decorator}"] if decorator else []
    lines.append(line)
    if docstring:
        lines.append(textwrap.indent(f'"""{docstring}"""', f"{indent}    ").replace("\n    \n", "\n\n"))
    return "\n".join(lines)


def parameters_of(signature):
    """Each parameter of a signature, with its type and default, and the mark behind those given by position."""
    shown = [str(each).replace("''", '""') for each in signature.parameters.values()]
    positional = sum(each.kind == each.POSITIONAL_ONLY for each in signature.parameters.values())
    return [*shown[:positional], "/", *shown[positional:]] if positional else shown


def overloads(family):
    """`{name: [(parameters, type of the result), ...]}` of the overloads in a file of rows."""
    found = {}
    for node in ast.parse(inspect.getsource(family)).body:
        if isinstance(node, ast.FunctionDef) and ast.unparse(node.decorator_list[0]) == "overload":
            given, defaults = node.args.args, node.args.defaults
            pairs = [*zip(given, [None] * (len(given) - len(defaults)) + defaults)]
            shown = [_parameter(*pair) for pair in pairs]
            if node.args.kwonlyargs:
                shown += ["*", *map(_parameter, node.args.kwonlyargs, node.args.kw_defaults)]
            found.setdefault(node.name, []).append((shown, ast.unparse(node.returns)))
    return found


def _parameter(argument, default):
    return ast.unparse(argument) + ("" if default is None else f" = {ast.unparse(default)}")


OVERLOADS = {name: each for family in FAMILIES for name, each in overloads(family).items()}


def function(row):
    """A row as a function of the namespace."""
    docstring = inspect.getdoc(row) + "\n"
    if row.name in OVERLOADS and row is FUNCTIONS[row.name]:
        first, *others = OVERLOADS[row.name]
        texts = [definition(row.name, *first, docstring, decorator="overload")]
        return "\n".join([*texts, *(definition(row.name, *each, decorator="overload") for each in others)])
    return definition(row.name, parameters_of(row.__signature__), row.__signature__.return_annotation, docstring)


def method(row):
    """A row as a method of `Tile`: its first parameter is the tile."""
    docstring = f"{inspect.getdoc(row).splitlines()[0]} See `ntl.{row.name}`."
    if len(docstring) > WIDTH - 14:
        docstring = f"See `ntl.{row.name}`."
    if row.name in OVERLOADS:
        texts = [
            definition(row.name, ["self", *shown[1:]], returns, None if place else docstring, "    ", "overload")
            for place, (shown, returns) in enumerate(OVERLOADS[row.name])
        ]
        return "\n".join(texts)
    shown = ["self", *parameters_of(row.__signature__)[1:]]
    return definition(row.name, shown, row.__signature__.return_annotation, docstring, "    ")


def is_method(row):
    """Whether the first argument of a row is a tile."""
    first = next(iter(row.__signature__.parameters.values()), None)
    return first is not None and first.annotation in ("TileLike", "Tile", "Any")


def namespace(name, rows):
    """A namespace within `ntl`, as a class of static methods."""
    methods = (
        definition(
            row.name,
            parameters_of(row.__signature__),
            row.__signature__.return_annotation,
            textwrap.fill(inspect.getdoc(row).splitlines()[0], WIDTH - 12),
            "    ",
            "staticmethod",
        )
        for row in rows
    )
    return f"class {name}:\n" + "\n\n".join(methods)


def of_types():
    """What `types.py` defines, and the functions of tiles as methods of `Tile`."""
    source = inspect.getsource(types)
    for node in ast.parse(source).body:
        if isinstance(node, (ast.ClassDef, ast.AnnAssign)):
            text = ast.get_source_segment(source, node)
            if getattr(node, "name", "") == "constexpr":
                # To a type checker any value will do: `p: ntl.constexpr = "ieee"`.
                text = f'constexpr: TypeAlias = Any\n"""{types.constexpr.__doc__}"""'
            if isinstance(node, ast.ClassDef) and node.name == "Tile":
                rows = [row for family in OF_TILES for row in vars(family).values() if row in FUNCTIONS.values()]
                text = "\n\n".join([text, *(method(row) for row in rows if is_method(row))])
            yield text


def text():
    """The whole stub."""
    parts = [HEADER.format(docstring=language.__doc__), *of_types()]
    parts.append("\n".join(f"{name}: DType" for name in dtypes.BY_NAME))
    parts += [function(row) for row in FUNCTIONS.values()]
    parts += [namespace("libdevice", LIBDEVICE.values()), namespace("math", language.math.functions.values())]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())

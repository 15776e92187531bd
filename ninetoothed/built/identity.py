"""Tell kernels apart across processes: by a digest of arrangement and application, with all that it is written with."""

from __future__ import annotations

import ast
import builtins
import functools
import hashlib
import inspect
import re
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ninetoothed import free_names
from ninetoothed.definition import KernelDefinition
from ninetoothed.free_names import FreeName

# Names that are numbered as they are made, which differs between processes.
_NUMBERED = re.compile(r"\bninetoothed_(?:tensor|block_size)_\d+")
# Packages whose functions are those of the language, or of Python.
_KNOWN = ("ninetoothed.language", "torch", "triton", "math", "builtins", "numpy", "enum")


@dataclass(frozen=True)
class Identity:
    """The identity of a kernel: a digest, and the names outside its application whose values are part of it."""

    digest: str
    free_names: tuple[FreeName, ...]


def identity(definition: KernelDefinition) -> Identity:
    """Digest what a kernel computes: its arrangement, and the sources of its application and of what that names.

    The values of constants and closures that these name count as they are now.
    """
    found: list[FreeName] = []
    parts = [definition.name, repr((definition.num_warps, definition.num_stages, definition.max_num_configs))]
    for parameter in definition.parameters:
        arrangement = parameter.arrangement
        parts.append(repr((parameter.name, arrangement.source, arrangement.levels, arrangement.steps)))
    parts += _sources(definition.application, set(), found)
    numbers: dict[str, str] = {}
    text = _NUMBERED.sub(lambda found: numbers.setdefault(found[0], f"name {len(numbers)}"), "\n".join(parts))
    return Identity(hashlib.sha256(text.encode()).hexdigest(), tuple(found))


def _sources(value: Any, seen: set[int], free: list[FreeName]) -> Iterator[str]:
    """Yield the source of a function and of what it names; of anything else, how it is shown."""
    if isinstance(value, functools.partial):
        yield from _sources(value.func, seen, free)
        for each in (*value.args, *value.keywords.items()):
            yield from _sources(each, seen, free)
        return
    function = inspect.unwrap(getattr(value, "__func__", value)) if callable(value) else value
    if not isinstance(function, types.FunctionType):
        yield _shown(value)
        return
    if id(function) in seen or (function.__module__ or "").startswith(_KNOWN):
        yield function.__qualname__
        return
    seen.add(id(function))
    yield _text(function)
    yield _shown(function.__defaults__)
    for name, found, noted in _named(function):
        if noted is not None:
            free.append(noted)
        yield name
        yield from _sources(found, seen, free)


def _named(function: types.FunctionType) -> Iterator[tuple[str, Any, FreeName | None]]:
    """Yield what a function names: globals, what it takes of modules, closures; with how the value is watched."""
    names = sorted({name for code in _codes(function.__code__) for name in code.co_names})
    for name in names:
        found = function.__globals__.get(name, getattr(builtins, name, None))
        if not isinstance(found, types.ModuleType):
            if found is not None:
                yield name, found, free_names.of_function(function, name, found)
        elif not found.__name__.startswith(_KNOWN):
            for other in (each for each in names if each in vars(found)):
                yield other, vars(found)[other], free_names.of_owner(found, other, vars(found)[other])
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # it is empty
            continue
        yield name, value, free_names.of_function(function, name, value)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _codes(each)


def _text(function: types.FunctionType) -> str:
    """Return a function's source, whatever its layout and comments; of one without, its code."""
    try:
        return ast.dump(ast.parse(textwrap.dedent(inspect.getsource(function))))
    except (OSError, TypeError, SyntaxError):
        return repr((function.__code__.co_code, function.__code__.co_names, function.__code__.co_consts))


def _shown(value: Any) -> str:
    """Show a value without its address."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))

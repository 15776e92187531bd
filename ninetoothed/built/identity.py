"""Tell kernels apart across processes: by a digest of arrangement and application, with all that it is written with."""

from __future__ import annotations

import ast
import builtins
import contextlib
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
    function = _function(value)
    if function is None:
        yield _shown(value)
        return
    if id(function) in seen or _is_known(function.__module__):
        yield function.__qualname__
        return
    seen.add(id(function))
    yield _text(function)
    yield _shown((function.__defaults__, function.__kwdefaults__))
    names = sorted({name for code in _codes(function.__code__) for name in code.co_names})
    found = list(_named(function, names))
    if isinstance(value, types.MethodType):
        found += _attributes(value.__self__, names, set())
    for name, each, noted in found:
        free += [] if noted is None else [noted]
        yield name
        yield from _sources(each, seen, free)


def _function(value: Any) -> types.FunctionType | None:
    """Return the function behind a method, a decorated function, or one of `triton.jit`."""
    inner = getattr(value, "__func__", None) or getattr(value, "fn", None) or value
    function = inspect.unwrap(inner) if callable(inner) else None
    return function if isinstance(function, types.FunctionType) else None


def _is_known(module: str | None) -> bool:
    return module is not None and any(module == known or module.startswith(f"{known}.") for known in _KNOWN)


def _named(function: types.FunctionType, names: list[str]) -> Iterator[tuple[str, Any, FreeName | None]]:
    """Yield what a function names: globals, closures, and attributes of these; with how the value is watched."""
    found = {name: function.__globals__.get(name, getattr(builtins, name, None)) for name in names}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it is empty
            found[name] = cell.cell_contents
    seen: set[int] = set()
    for name, value in found.items():
        if value is not None and not isinstance(value, types.ModuleType):
            yield name, value, free_names.of_function(function, name, value)
        yield from _attributes(value, names, seen)


def _attributes(owner: Any, names: list[str], seen: set[int]) -> Iterator[tuple[str, Any, FreeName | None]]:
    """Yield the attributes of a module or of a user's object that have one of the names, and theirs in turn."""
    module = owner.__name__ if isinstance(owner, types.ModuleType) else getattr(_class(owner), "__module__", None)
    if id(owner) in seen or _is_known(module) or module == "ninetoothed.dtypes" or _function(owner) is not None:
        return
    seen.add(id(owner))
    for name in names:
        try:
            value = vars(owner)[name] if isinstance(owner, types.ModuleType) else getattr(owner, name)
        except Exception:  # properties raise anything
            continue
        yield name, value, free_names.of_owner(owner, name, value)
        yield from _attributes(value, names, seen)


def _class(value: Any) -> type:
    return value if isinstance(value, type) else type(value)


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

"""Classes of transformers are recognised by their code, never by their names alone.

transformers copies a class into each family that uses it. A copy computes what the original computes if its functions
have the same compiled code: instructions and all that they name, whatever the file, the annotations and the docstring.
"""

import functools
import importlib
import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from .names import module

MODELS = "transformers.models"
SUBCLASS = "a subclass of something, which may compute something else"
# Whose wrappers change nothing that a forward computes.
_FILES = module("transformers.utils.deprecation"), module("transformers.modeling_layers")
WRAPPERS = tuple(vars(each).get("__file__") for each in _FILES)
# Methods that compute nothing of what a module gives.
ASIDE = ("__init__", "extra_repr")


def names_of(function: Callable | None) -> tuple[str, ...]:
    """Give the names that a function looks up: globals and attributes."""
    return getattr(getattr(undecorated(function), "__code__", None), "co_names", ())


def looks_up(function: Callable | None, registry: str) -> bool:
    """Tell whether a function takes an item of a registry.

    Kosmos-2.5's images ask for an attribute of the registry instead, which it never has.
    """
    names = names_of(function)
    return registry in names and ("get_interface" in names or "getattr" not in names)


def same(function: Callable | None, *paths: str) -> bool:
    """Tell whether a function has the code of one of transformers' functions, or of the forwards of its classes."""
    code = code_of(function)
    return code is not None and code in map(reference, paths)


def computes_like(cls: type, path: str) -> bool:
    """Tell whether a class has the methods of a class of transformers, which inherits from a class of PyTorch."""
    expected = reference_methods(path)
    return expected is not None and (cls.__bases__, _codes(cls)) == expected


@functools.cache
def reference_methods(path: str) -> tuple[tuple[type, ...], dict[str, tuple | None]] | None:
    """Find the bases of a class of transformers and the code of each method; None if a part is not its file's."""
    found, source = _found(path)
    if found is None or not all(each.__module__.startswith("torch.") for each in found.__bases__):
        return None
    files = {getattr(getattr(each, "__code__", None), "co_filename", None) for each in methods(found).values()}
    return (found.__bases__, _codes(found)) if files == {source} else None


def _codes(cls: type) -> dict[str, tuple | None]:
    return {name: code_of(each) if isinstance(each, FunctionType) else None for name, each in methods(cls).items()}


def methods(cls: type) -> dict[str, Any]:
    """Find what a class computes with: functions and properties of its own, its constructor aside."""
    code = (FunctionType, property, classmethod, staticmethod)
    return {name: value for name, value in vars(cls).items() if isinstance(value, code) and name not in ASIDE}


@functools.cache
def reference(path: str) -> tuple | None:
    """Find the code of a class's forward, or of a function, of transformers; None if it is not its file's any more."""
    found, source = _found(path)
    function = undecorated(vars(found).get("forward") if isinstance(found, type) else found)
    return code_of(function) if function is not None and function.__code__.co_filename == source else None


def _found(path: str) -> tuple[Any, str | None]:
    """Find a class or a function of transformers, and its file; None for it if there is none of this name."""
    file, name = path.rsplit(".", 1)
    try:
        found = getattr(importlib.import_module(f"{MODELS}.{file}"), name)
    except (ImportError, AttributeError):
        return None, None
    return found, sys.modules[f"{MODELS}.{file}"].__file__


def code_of(function: Callable | None) -> tuple | None:
    """Give the code of a function in a form that compares: instructions and all that they name, but no docstring."""
    function = undecorated(function)
    code = getattr(function, "__code__", None)
    return None if code is None else _comparable(code, function.__doc__)


def undecorated(function: Any) -> Any:
    """Take off what transformers wraps around forwards: old names of arguments, and checkpoints since 5.23."""
    while hasattr(function, "__wrapped__") and function.__code__.co_filename in WRAPPERS:
        function = function.__wrapped__
    return function


def _comparable(code: CodeType, doc: str | None = None) -> tuple:
    constants = tuple(
        _comparable(constant) if isinstance(constant, CodeType) else repr(None if constant == doc else constant)
        for constant in code.co_consts
    )
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars

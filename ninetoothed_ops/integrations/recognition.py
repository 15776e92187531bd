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

from torch import nn
from transformers.utils import deprecation

MODELS = "transformers.models"
SUBCLASS = "a subclass of something, which may compute something else"
# Methods that a class may have beside those that compute.
PLAIN = ("__init__", "extra_repr")


def same(function: Callable | None, *paths: str) -> bool:
    """Tell whether a function has the code of one of transformers' functions, or of the forwards of its classes."""
    code = code_of(function)
    return code is not None and code in map(reference, paths)


def more_than_forward(cls: type[nn.Module]) -> str | None:
    """Give the reason why a class is more than its forward; one that is not may be exchanged for its equal."""
    if cls.__bases__ != (nn.Module,):
        return SUBCLASS
    extra = [name for name in methods(cls) if name != "forward"]
    return f"it has {', '.join(extra)} beside its forward" if extra else None


def methods(cls: type) -> dict[str, Any]:
    """Find what a class computes with: functions and properties of its own, its constructor aside."""
    code = (FunctionType, property, classmethod, staticmethod)
    return {name: value for name, value in vars(cls).items() if isinstance(value, code) and name not in PLAIN}


@functools.cache
def reference(path: str) -> tuple | None:
    """Find the code of a class's forward, or of a function, of transformers; None if it is not its file's any more."""
    file, name = path.rsplit(".", 1)
    try:
        found = getattr(importlib.import_module(f"{MODELS}.{file}"), name)
    except (ImportError, AttributeError):
        return None
    function = vars(found).get("forward") if isinstance(found, type) else found
    function = undecorated(function)
    if function is None or function.__code__.co_filename != sys.modules[f"{MODELS}.{file}"].__file__:
        return None
    return code_of(function)


def code_of(function: Callable | None) -> tuple | None:
    """Give the code of a function in a form that compares: instructions and all that they name, but no docstring."""
    function = undecorated(function)
    code = getattr(function, "__code__", None)
    return None if code is None else _comparable(code, function.__doc__)


def undecorated(function: Any) -> Any:
    """Take off the decorator by which transformers still takes an argument under its old name."""
    while hasattr(function, "__wrapped__") and function.__code__.co_filename == deprecation.__file__:
        function = function.__wrapped__
    return function


def _comparable(code: CodeType, doc: str | None = None) -> tuple:
    constants = tuple(
        _comparable(constant) if isinstance(constant, CodeType) else repr(None if constant == doc else constant)
        for constant in code.co_consts
    )
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars

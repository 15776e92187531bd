"""Modules of transformers that rotate states by a function of their file, with `ninetoothed.rope` in its place.

The forward is the module's own, made anew from its source: what rotates is an argument of the function around it, and
all else is looked up in the very file that it was. So no file and no other model is changed, a patch of the file is
seen, and `torch.compile` finds plain code.
"""

import __future__

import ast
import functools
import inspect
import tokenize
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any, ClassVar

import torch
from torch import nn

from ninetoothed.errors import UnsupportedError

from .rotary import RotaryFunction
from .rotary_parts import without_copies
from .rotary_trial import rotary_functions
from .substitute import Substitute, is_outdated, own_forward


class NTRotary(Substitute):
    """A module of transformers whose rotary embedding alone runs on NineToothed, by `ninetoothed.rope`.

    `swap_modules` puts it in the place of such a module, whose attention is what the model's config asks for.
    """

    rotary_functions: ClassVar[Mapping[str, RotaryFunction]]

    @classmethod
    def facts(cls, replaced: type[nn.Module]) -> dict[str, Any]:
        written: Any = inspect.unwrap(replaced.forward)
        found = rotary_functions(written)
        functions = {name: each for name, each in found.items() if isinstance(each, RotaryFunction)}
        if not functions:
            raise UnsupportedError(", ".join(map(str, found.values())) or "its forward calls no function that rotates")
        made = _with(written, functions)
        if _decorators(made) != _decorators(replaced.forward):
            raise UnsupportedError("the forward of its class is wrapped in another function")
        return {"rotary_functions": functions, "forward": _unless_outdated(made)}


def rotates(cls: type[nn.Module]) -> bool:
    """Tell whether the forward of a class calls a function of its file that takes a `cos` and a `sin`."""
    written = inspect.unwrap(cls.forward)
    return isinstance(written, FunctionType) and bool(rotary_functions(written))


def _unless_outdated(made: Callable) -> Callable:
    """Let a forward give way to that of the class replaced, if this was patched since."""

    @functools.wraps(made)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return (own_forward(self) if is_outdated(self) else made)(self, *args, **kwargs)

    return forward


def _decorators(function: Any) -> list[CodeType]:
    """List the code of all that is wrapped around a function, outermost first."""
    return [function.__code__, *_decorators(function.__wrapped__)] if hasattr(function, "__wrapped__") else []


def _with(function: FunctionType, values: Mapping[str, RotaryFunction]) -> Callable:
    """Make a function anew from its source, decorators included, with what shall rotate in it.

    Where it rotates the first columns alone, no copies are made around that.
    """
    if function.__closure__:
        raise UnsupportedError("its forward is a closure")
    try:
        is_source = function.__code__ in _codes(function.__code__.co_filename)
    except (OSError, SyntaxError) as error:
        raise UnsupportedError(f"the source of its forward cannot be read: {error}") from None
    if not is_source:
        raise UnsupportedError("its forward is not what its file says")
    return _made(function, values)


@functools.cache
def _codes(filename: str) -> frozenset[CodeType]:
    """Compile a file, and find the code of all functions in it."""
    with tokenize.open(filename) as file:
        pending = [compile(file.read(), filename, "exec", dont_inherit=True)]
    found: set[CodeType] = set()
    while pending:
        found.add(code := pending.pop())
        pending.extend(each for each in code.co_consts if isinstance(each, CodeType))
    return frozenset(found)


def _made(function: FunctionType, values: Mapping[str, RotaryFunction]) -> Callable:
    """Run `def make(NAME, ...): def forward(...): ...; return forward` in the file of a function."""
    lines, first = inspect.getsourcelines(function)
    text = "".join(lines)
    if text[0].isspace():
        text, first = "if True:\n" + text, first - 1
    definition: Any = ast.parse(text).body[0]
    definition = definition.body[0] if isinstance(definition, ast.If) else definition
    if function.__globals__.get("torch") is torch:
        without_copies(definition, values)
    factory: Any = ast.parse(f"def make({', '.join(values)}): return {definition.name}").body[0]
    factory.body.insert(0, definition)
    ast.increment_lineno(factory, first - 1)
    flags = function.__code__.co_flags & __future__.annotations.compiler_flag
    code = compile(ast.Module([factory], []), function.__code__.co_filename, "exec", flags, dont_inherit=True)
    made: dict[str, Callable] = {}
    exec(code, function.__globals__, made)
    return made["make"](**values)

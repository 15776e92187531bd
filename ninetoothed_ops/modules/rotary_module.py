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
from typing import Any, ClassVar, SupportsIndex

from torch import nn

from ninetoothed.errors import ArgumentTypeError, UnsupportedError

from .rotary import RotaryFunction
from .rotary_trial import rotary_functions


class NTRotary(nn.Module):
    """A module of transformers whose rotary embedding alone runs on NineToothed, by `ninetoothed.rope`.

    It exists only in the place of such a module (`swap_modules` puts it there, as a subclass of that module's class
    too), keeps all that this holds, and is called the same way. Its attention is what the model's config asks for.
    """

    replaced: ClassVar[type[nn.Module]]
    rotary_functions: ClassVar[Mapping[str, RotaryFunction]]

    def __init__(self, *_: Any, **__: Any) -> None:
        raise ArgumentTypeError(
            "NTRotary cannot be made from arguments: ninetoothed_ops.swap_modules(model) puts it in the place of a "
            "model's attention."
        )

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple:
        """Let copies and pickles know the class by the one that it replaced, which can be imported."""
        return _make, (type(self).replaced,), self.__dict__


def replacing(cls: type[nn.Module]) -> type[NTRotary]:
    """Make the NTRotary that is a `cls` too; raises UnsupportedError, with the reason, where that cannot be."""
    # A class is hashable, whatever mypy thinks of `nn.Module.__hash__`.
    return _replacing(cls, cls.forward)  # type: ignore[arg-type]


@functools.cache
def _replacing(cls: type[nn.Module], forward: Callable) -> type[NTRotary]:
    """Make the NTRotary for a class and the forward that it has now, which may be patched and be given back."""
    written = inspect.unwrap(forward)
    found = rotary_functions(written)
    functions = {name: each for name, each in found.items() if isinstance(each, RotaryFunction)}
    if not functions:
        raise UnsupportedError(", ".join(map(str, found.values())) or "its forward calls no function that rotates")
    attributes = {"__module__": __name__, "replaced": cls, "rotary_functions": functions}
    return type("NTRotary", (NTRotary, cls), {**attributes, "forward": _with(written, functions)})


def _make(cls: type[nn.Module]) -> NTRotary:
    return object.__new__(replacing(cls))


def rotates(cls: type[nn.Module]) -> bool:
    """Tell whether the forward of a class calls a function of its file that takes a `cos` and a `sin`."""
    written = inspect.unwrap(cls.forward)
    return isinstance(written, FunctionType) and bool(rotary_functions(written))


def _with(function: FunctionType, values: Mapping[str, Any]) -> Callable:
    """Make a function anew from its source, with other values for some names that it looks up in its file."""
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


def _made(function: FunctionType, values: Mapping[str, Any]) -> Callable:
    """Run `def make(NAME, ...): def forward(...): ...; return forward` in the file of a function."""
    lines, first = inspect.getsourcelines(function)
    text = "".join(lines)
    if text[0].isspace():
        text, first = "if True:\n" + text, first - 1
    definition: Any = ast.parse(text).body[0]
    definition = definition.body[0] if isinstance(definition, ast.If) else definition
    factory: Any = ast.parse(f"def make({', '.join(values)}): return {definition.name}").body[0]
    factory.body.insert(0, definition)
    ast.increment_lineno(factory, first - 1)
    flags = function.__code__.co_flags & __future__.annotations.compiler_flag
    code = compile(ast.Module([factory], []), function.__code__.co_filename, "exec", flags, dont_inherit=True)
    made: dict[str, Callable] = {}
    exec(code, function.__globals__, made)
    return made["make"](**values)

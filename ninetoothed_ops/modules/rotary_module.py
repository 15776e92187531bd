"""Modules of transformers that rotate states by a function of their file, with `ninetoothed.rope` in its place.

The forward is the module's own: its code, called with other globals, which are those of its file but for what rotates.
So no file and no other model is changed. Where the file has something else by one of the names that the forward looks
up, since somebody patched it, the forward replaced runs.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import CellType, CodeType, FunctionType
from typing import Any, ClassVar

from torch import nn

from ninetoothed.errors import UnsupportedError

from .rotary import RotaryFunction
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
        file = written.__globals__
        # What rotates tells by itself whether it was patched.
        others = {name: file[name] for name in _names(written.__code__) if name in file and name not in functions}
        # Under the name of its file `torch.compile` would look names up in the file itself.
        names = {name: value for name, value in {**file, **functions}.items() if name != "__name__"}
        made = _with(replaced.forward, names)
        return {"rotary_functions": functions, "forward": _unless_patched(made, file, tuple(others.items()))}


def rotates(cls: type[nn.Module]) -> bool:
    """Tell whether the forward of a class calls a function of its file that takes a `cos` and a `sin`."""
    written = inspect.unwrap(cls.forward)
    return isinstance(written, FunctionType) and bool(rotary_functions(written))


def _unless_patched(made: Callable, file: Mapping[str, Any], known: tuple[tuple[str, Any], ...]) -> Callable:
    """Let a forward give way to that of the class replaced, if this or what it finds in its file was patched since."""

    @functools.wraps(made)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if not is_outdated(self) and all(file.get(name) is value for name, value in known):
            return made(self, *args, **kwargs)
        return own_forward(self)(self, *args, **kwargs)

    return forward


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that code looks up, and the functions in it."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)


def _with(function: Any, names: dict[str, Any]) -> FunctionType:
    """Make a function of the same code that finds other globals; what is wrapped around it is made anew, too."""
    inner, cells = getattr(function, "__wrapped__", None), function.__closure__ or ()
    if inner is not None:
        if not any(_holds(cell, inner) for cell in cells):
            raise UnsupportedError("its forward is wrapped in a function that calls it in a way of its own")
        own, made = function.__globals__, _with(inner, names)
        cells = tuple(CellType(made) if _holds(cell, inner) else cell for cell in cells)
    else:
        own, made = names, None
    remade: Any = FunctionType(function.__code__, own, function.__name__, function.__defaults__, cells)
    remade.__kwdefaults__ = function.__kwdefaults__
    functools.update_wrapper(remade, function)
    if made is None:
        del remade.__wrapped__
    else:
        remade.__wrapped__ = made
    return remade


def _holds(cell: CellType, function: Any) -> bool:
    try:
        return cell.cell_contents is function
    except ValueError:  # it is empty
        return False

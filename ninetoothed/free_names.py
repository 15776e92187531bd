"""Names outside an application, whose values are part of the program that was traced with them.

SCALE = 2

def application(x, y):
    y = x * SCALE          FreeName(globals, "SCALE", 2): where it is 3 in a call, the kernel is traced anew
    y = x * model.eps      FreeName(globals, "model", ...) and FreeName(model, "eps", 1e-6)
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_OURS = ("ninetoothed", "ninetoothed_ops", "triton", "torch")
_GONE = object()


@dataclass(frozen=True, eq=False)
class FreeName:
    """A name that was read, and its value then.

    place: a function's globals, or else what has the attribute `name`: a closure's cell, a module or any object.
    """

    place: Any
    name: str
    value: Any
    is_global: bool = False

    @property
    def is_current(self) -> bool:
        """Tell whether the name still has the value, or a number like it."""
        now = self._now()
        is_alike = type(now) is type(self.value) and _is_plain(now)
        return now is self.value or (is_alike and repr(now) == repr(self.value))

    def differs(self, named: Callable[[Any], str]) -> str:
        """Return the expression that tells whether the value is another. It raises where the name is gone."""
        if self._now() is not self.value:  # a number that a property makes anew
            return f"not {named(self)}.is_current"
        now = f"{named(self.place)}[{self.name!r}]" if self.is_global else f"{named(self.place)}.{self.name}"
        return f"{now} is not {named(self.value)}"

    def _now(self) -> Any:
        try:
            return self.place[self.name] if self.is_global else operator.attrgetter(self.name)(self.place)
        except Exception:  # properties raise anything
            return _GONE


def _is_plain(value: Any) -> bool:
    return type(value) in (bool, int, float, str) or (isinstance(value, tuple) and all(map(_is_plain, value)))


def of_function(function: types.FunctionType, name: str, value: Any) -> FreeName | None:
    """Return a name that a function reads; None for what is no user's, and for builtins."""
    if _is_our_module(value) or _is_ours(function.__globals__.get("__name__")):
        return None
    if name in function.__code__.co_freevars:
        cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
        return FreeName(cell, "cell_contents", value)
    return FreeName(function.__globals__, name, value, is_global=True) if name in function.__globals__ else None


def of_owner(owner: Any, name: str, value: Any) -> FreeName | None:
    """Return an attribute of an object; None for those of our modules, and for what is made anew at each reading."""
    if _is_our_module(owner) or _is_our_module(value):
        return None
    if isinstance(value, types.MethodType):  # made anew, too, of one function
        name, value = f"{name}.__func__", value.__func__
    found = FreeName(owner, name, value)
    return found if found.is_current else None


def _is_our_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and _is_ours(value.__name__)


def _is_ours(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in _OURS

"""Names outside an application, whose values are part of the program that was traced with them.

SCALE = 2

def application(x, y):
    y = x * SCALE          FreeName(globals, "SCALE", 2): where it is 3 in a call, the kernel is traced anew
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_OURS = ("ninetoothed", "ninetoothed_ops", "triton", "torch")


@dataclass(frozen=True, eq=False)
class FreeName:
    """A name that was read, and its value then. place: the cell of a closure, or what `vars` gives of its owner."""

    place: types.CellType | Mapping[str, Any]
    name: str
    value: Any

    @property
    def is_current(self) -> bool:
        """Tell whether the name still has the value, or a number like it."""
        try:
            now = self.place.cell_contents if isinstance(self.place, types.CellType) else self.place[self.name]
        except (KeyError, ValueError):
            return False
        return now is self.value or (type(now) in (bool, int, float, str) and _known(now) == _known(self.value))

    @property
    def text(self) -> str:
        """Return the expression of the name's value, of `{place}`."""
        is_cell = isinstance(self.place, types.CellType)
        return "{place}.cell_contents" if is_cell else f"{{place}}.get({self.name!r})"


def _known(value: Any) -> tuple[type, str]:
    return type(value), repr(value)


def of_function(function: types.FunctionType, name: str, value: Any) -> FreeName | None:
    """Return a name that a function reads; None for modules, and for what is no user's."""
    if isinstance(value, types.ModuleType) or _is_ours(function.__globals__.get("__name__")):
        return None
    if name in function.__code__.co_freevars:
        return FreeName((function.__closure__ or ())[function.__code__.co_freevars.index(name)], name, value)
    return FreeName(function.__globals__, name, value) if name in function.__globals__ else None


def of_owner(owner: Any, name: str, value: Any) -> FreeName | None:
    """Return an attribute of a module or an object that holds a number or text; None for any other."""
    place = getattr(owner, "__dict__", None)
    module = owner.__name__ if isinstance(owner, types.ModuleType) else getattr(owner, "__module__", None)
    if type(value) not in (bool, int, float, str) or place is None or name not in place or _is_ours(module):
        return None
    return FreeName(place, name, value)


def _is_ours(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in _OURS

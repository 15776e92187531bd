"""Read the annotations of a function that `jit` makes a kernel of."""

from __future__ import annotations

import inspect
from typing import Any

from ninetoothed.errors import arrangement_error
from ninetoothed.integrate import Application


def place_of(function: Application) -> str:
    """Return the file and the line of a function."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else ""


def annotations_of(function: Application) -> dict[str, Any]:
    """Return annotations as objects, also where `from __future__ import annotations` made them text."""
    found = dict(getattr(function, "__annotations__", {}))
    if any(isinstance(value, str) for value in found.values()):
        closure = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
        scope = {**function.__globals__, **closure}
        found = {name: _evaluated(function, name, value, scope) for name, value in found.items()}
    return found


def _evaluated(function: Application, name: str, annotation: Any, scope: dict[str, Any]) -> Any:
    try:
        return eval(annotation, scope) if isinstance(annotation, str) else annotation
    except NameError as error:
        raise arrangement_error(
            f"`jit` of {function.__name__!r}: the annotation `{annotation}` of parameter {name!r} cannot be read:"
            f" {error}. `from __future__ import annotations` makes it a text, which local variables are not seen from",
            "drop that import, or make the variable global",
            place=place_of(function),
        ) from None

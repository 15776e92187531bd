"""Word messages: counted nouns, similar names, and the user's names instead of generated ones.

    arrangement(x, y), error: `ninetoothed_tensor_3` of shape (ninetoothed_tensor_3_size_0,)
->                            `x` of shape (x_size_0,)

Tensors and block sizes get a generated name when they are made, before any function has them as a parameter. So
errors are reworded once, where they leave the package: in `make` and in a kernel's call.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, TypeVar

from ninetoothed.errors import NineToothedError

_E = TypeVar("_E", bound=Exception)
_GENERATED = re.compile(r"\bninetoothed_(?:tensor|block_size)_\d+")


def counted(count: int, noun: str, plural: str = "") -> str:
    """Count a noun: `1 dimension`, `2 dimensions`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def listed(names: Sequence[str]) -> str:
    """List names: `a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def unused(name: str, taken: Container[str]) -> str:
    """Return a name, with underscores after it until none of those taken is the same."""
    while name in taken:
        name += "_"
    return name


def brief(value: object) -> str:
    """Print a value in a message: its text where that is short, else its type."""
    if isinstance(value, type) or callable(value):
        return f"`{getattr(value, '__name__', type(value).__name__)}`"
    if isinstance(value, tuple) and type(value) is tuple:
        return f"({', '.join(map(brief, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list) and type(value) is list:
        return f"[{', '.join(map(brief, value))}]"
    try:
        text = repr(value)
    except NineToothedError:  # of an absent parameter: to show it is to touch it
        raise
    except Exception:
        text = ""
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return text if text and len(text) <= 80 and "\n" not in text and " at 0x" not in text else f"<{kind}>"


def near(name: str, names: Iterable[str]) -> str:
    """Suggest the names that are spelt almost like `name`: `did you mean 'exp' or 'exp2'?`; "" where none is."""
    found = get_close_matches(name, [each for each in names if each != name], 3, 0.7)
    return f"did you mean {' or '.join(map(repr, found))}?" if found else ""


def given_names(
    arrangement: Callable[..., Any], tensors: Sequence[Any], application: Callable[..., Any]
) -> dict[str, str]:
    """Map generated names to the user's: an arrangement's parameters, and variables around the two functions.

    arrangement(x, y, BLOCK=block_size())   {"ninetoothed_tensor_3": "x", ..., "ninetoothed_block_size_0": "BLOCK"}
    """
    found: dict[str, str] = {}
    for name, value in (*_bound(arrangement, tensors), *_around(arrangement), *_around(application)):
        several = enumerate(value) if isinstance(value, tuple | list) else ()
        for label, each in ((name, value), *((f"{name}_{i}", each) for i, each in several)):
            generated = getattr(each, "name", None) if type(each).__module__.startswith("ninetoothed.") else None
            if isinstance(generated, str) and _GENERATED.fullmatch(generated):
                found.setdefault(generated, label)
    return found


def _bound(function: Callable[..., Any], arguments: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parameters of a function with their arguments or defaults."""
    try:
        bound = inspect.signature(function).bind(*arguments)
    except (TypeError, ValueError):
        return
    bound.apply_defaults()
    yield from bound.arguments.items()


def _around(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a Python function sees around it."""
    function = getattr(function, "func", function)  # of a partial
    function = inspect.unwrap(getattr(function, "__func__", function))
    if isinstance(function, types.FunctionType):
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # a variable that has no value yet
                yield name, cell.cell_contents
        yield from tuple(function.__globals__.items())


def in_users_names(error: _E, names: Mapping[str, str]) -> _E:
    """Replace generated names in an error's message by the user's."""
    error.args = tuple(reworded(value, names) if isinstance(value, str) else value for value in error.args)
    if isinstance(error, SyntaxError):
        error.msg = reworded(error.msg, names)
    return error


def reworded(text: str, names: Mapping[str, str]) -> str:
    """Replace generated names in a text by the user's."""
    return _GENERATED.sub(lambda found: names.get(found[0], found[0]), text)

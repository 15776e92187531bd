"""Word messages: counted nouns, near names, and the user's names in the place of generated ones.

    arrangement(x, y), error: `ninetoothed_tensor_3` of shape (ninetoothed_tensor_3_size_0,)
->                            `x` of shape (x_size_0,)

Tensors and block sizes get a generated name when they are made, before any function has them as a parameter. So an
error of an arrangement is reworded once, where `make` has run it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

_GENERATED = re.compile(r"\bninetoothed_(?:tensor|block_size)_\d+")


def counted(count: int, noun: str, plural: str = "") -> str:
    """Count a noun: `1 dimension`, `2 dimensions`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def near(name: str, names: Iterable[str]) -> str:
    """Suggest the names that are spelt almost like `name`: `did you mean 'exp' or 'exp2'?`; "" where none is."""
    found = get_close_matches(name, list(names), 3, 0.7)
    return f"did you mean {' or '.join(map(repr, found))}?" if found else ""


def parameter_names(arrangement: Callable, tensors: Sequence[Any]) -> dict[str, str]:
    """Map the generated names among an arrangement's arguments and defaults to the names of its parameters."""
    try:
        bound = inspect.signature(arrangement).bind(*tensors)
    except (TypeError, ValueError):
        return {}
    bound.apply_defaults()
    found: dict[str, str] = {}
    for name, value in bound.arguments.items():
        several = enumerate(value) if isinstance(value, tuple | list) else ()
        for label, each in ((name, value), *((f"{name}_{i}", each) for i, each in several)):
            generated = getattr(each, "name", None)
            if isinstance(generated, str) and _GENERATED.fullmatch(generated):
                found.setdefault(generated, label)
    return found


@contextmanager
def in_users_names(names: Mapping[str, str]) -> Iterator[None]:
    """Reword what is raised inside: generated names become the user's."""
    try:
        yield
    except Exception as error:
        error.args = tuple(_reworded(each, names) if isinstance(each, str) else each for each in error.args)
        raise


def _reworded(text: str, names: Mapping[str, str]) -> str:
    return _GENERATED.sub(lambda found: names.get(found[0], found[0]), text)

"""Substitutes: modules that exist only in the place of a module of transformers, as a subclass of its class, too.

By that class transformers finds the modules whose outputs it captures. One is made for each class that is replaced, and
copies and pickles find it by that, which can be imported.
"""

import functools
from collections.abc import Callable
from typing import Any, ClassVar, SupportsIndex, TypeVar

from torch import nn

from ninetoothed.errors import ArgumentTypeError


class Substitute(nn.Module):
    """A module that `swap_modules` puts in the place of another, keeps all that this holds, and is called as it was."""

    # Of the class that `substitute` makes: that of the other module, and the forward that this had.
    replaced: ClassVar[tuple[type[nn.Module], Callable]]

    def __init__(self, *_: Any, **__: Any) -> None:
        raise ArgumentTypeError(
            f"{type(self).__name__} cannot be made from arguments: ninetoothed_ops.swap_modules puts it in the place "
            "of a module of transformers."
        )

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple:
        return _instance, parts(type(self)), self.__dict__

    @classmethod
    def facts(cls, replaced: type[nn.Module]) -> dict[str, Any]:
        """Find what the class made for `replaced` knows of it; `UnsupportedError` where there can be none."""
        return {}


_Kind = TypeVar("_Kind", bound=Substitute)


def substitute(kind: type[_Kind], replaced: type[nn.Module]) -> type[_Kind]:
    """Make the `kind` that is a `replaced` too, whose forward may be patched and be given back."""
    # A class is hashable, whatever mypy thinks of `nn.Module.__hash__`.
    return _substitute(kind, replaced, replaced.forward)  # type: ignore[arg-type]


@functools.cache
def _substitute(kind: type[_Kind], replaced: type[nn.Module], original: Callable) -> type[_Kind]:
    attributes = {"__module__": kind.__module__, "replaced": (replaced, original)}
    return type(kind.__name__, (kind, replaced), {**attributes, **kind.facts(replaced)})


def parts(cls: Any) -> tuple[Any, type[nn.Module] | None]:
    """Give the kind of a substitute and the class that it replaces; any other class, or None, and None."""
    made = next((base for base in getattr(cls, "__mro__", ()) if "replaced" in vars(base)), None)
    return (cls, None) if made is None else (made.__bases__[0], vars(made)["replaced"][0])


def whole(kind: Any, replaced: type[nn.Module] | None) -> Any:
    """Find the class of which `parts` gives these."""
    return kind if replaced is None else substitute(kind, replaced)


def _instance(kind: type[Substitute], replaced: type[nn.Module]) -> Substitute:
    return object.__new__(whole(kind, replaced))


def is_outdated(module: Any) -> bool:
    """Tell whether the class that a substitute replaces has another forward now, or the swap was taken back.

    Another thread may take it back while a forward runs. The type of a module is not asked for: see `joint._are_plain`.
    """
    replaced = getattr(module, "replaced", None)
    return replaced is None or replaced[0].forward is not replaced[1]


def own_forward(module: Any) -> Callable:
    """Give the forward that a module has without a swap."""
    cls = type(module)
    return getattr(cls, "replaced", (cls,))[0].forward

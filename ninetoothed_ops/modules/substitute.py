"""Substitutes: classes that are made for a class of module that is replaced, so that it is found by what it was.

A module of PyTorch becomes one of NineToothed, as a Linear becomes an NTLinear, which is a Linear. One of another class
becomes a subclass of both: of NineToothed's, and of the class replaced, whose name, signature and names of parameters
it keeps. By these others find it: transformers the modules whose outputs it captures, FSDP and device maps the layers
that stay whole. Printed, it has the name of NineToothed's. Copies and pickles find the class by the two.
"""

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar, SupportsIndex, TypeVar

from torch import nn

from ninetoothed.errors import ArgumentTypeError

# The attribute by which a class that was made tells which of NineToothed's it is.
KIND = "ninetoothed_kind"


class Substitute(nn.Module):
    """A module that `swap_modules` puts in the place of another, keeps all that this holds, and is called as it was."""

    # Of the class that `substitute` makes: that of the other module, and the forward that this had.
    replaced: ClassVar[tuple[type[nn.Module], Callable]]

    def __init__(self, *_: Any, **__: Any) -> None:
        raise ArgumentTypeError(
            f"{type(self).__name__} cannot be made from arguments: ninetoothed_ops.swap_modules puts it in the place "
            "of a module of transformers."
        )

    @classmethod
    def facts(cls, replaced: type[nn.Module]) -> dict[str, Any]:
        """Find what the class made for `replaced` knows of it; `UnsupportedError` where there can be none."""
        return {}


_Kind = TypeVar("_Kind", bound=nn.Module)


def substitute(kind: type[_Kind], replaced: type[nn.Module]) -> type[_Kind]:
    """Make the `kind` that is a `replaced` too, whose forward may be patched and be given back; `kind` if it is one."""
    # A class is hashable, whatever mypy thinks of `nn.Module.__hash__`.
    return kind if issubclass(kind, replaced) else _substitute(kind, replaced, replaced.forward)  # type: ignore[arg-type]


@functools.cache
def _substitute(kind: type[_Kind], replaced: type[nn.Module], original: Callable) -> type[_Kind]:
    attributes = {
        "__module__": replaced.__module__,
        "__qualname__": replaced.__qualname__,
        "__doc__": kind.__doc__,
        "__reduce_ex__": _reduced,
        "__init_subclass__": classmethod(_of_no_kind),
        "_get_name": lambda self: kind.__name__,
        KIND: kind,
        "replaced": (replaced, original),
        "forward": _called_as(original, kind.forward),
    }
    facts = kind.facts(replaced) if issubclass(kind, Substitute) else {}
    return type(replaced.__name__, (kind, replaced), {**attributes, **facts})


def _called_as(original: Callable, forward: Any) -> Any:
    """Copy a forward, of which what it is given has the names, and the signature, that the original has."""
    signature, code = inspect.signature(original), forward.__code__
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    given = [name for name, each in signature.parameters.items() if each.kind in kinds][: code.co_argcount]
    names = (*given, *(f"{name}_" if name in given else name for name in code.co_varnames[len(given) :]))
    if names != code.co_varnames:
        code = code.replace(co_varnames=names)
    made: Any = FunctionType(code, forward.__globals__, forward.__name__, forward.__defaults__, forward.__closure__)
    made.__signature__, made.__doc__, made.__kwdefaults__ = signature, forward.__doc__, forward.__kwdefaults__
    return made


def _of_no_kind(cls: Any) -> None:
    """Let a subclass, which may compute something else, be of its own kind."""
    setattr(cls, KIND, cls)


def _reduced(module: nn.Module, protocol: SupportsIndex) -> tuple:
    made = next(base for base in type(module).__mro__ if "replaced" in vars(base))
    return _instance, (made.__bases__[0], vars(made)["replaced"][0]), module.__dict__


def _instance(kind: type[nn.Module], replaced: type[nn.Module]) -> nn.Module:
    return object.__new__(substitute(kind, replaced))


def kind_of(module: Any) -> type[nn.Module]:
    """Give NineToothed's class of a module, whatever class it replaces; its own where it is none.

    The type is asked for last: see `joint._are_plain`.
    """
    kind = getattr(module, KIND, None)
    return type(module) if kind is None else kind


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

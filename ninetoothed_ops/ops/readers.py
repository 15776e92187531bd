"""Readers of arguments: each takes a type of Python's, and what PyTorch reads as one, and raises TypeError else.

PyTorch takes a number of NumPy's or a tensor of no dimensions for a number, and raises TypeError for an argument of
another type. An operator, which knows its schema alone, takes fewer types, and some that PyTorch does not. A public
function tells by a glance at the types whether all is Python's own; only where it is not are the arguments read here.
"""

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard, TypeVar

import numpy as np
import torch

from ninetoothed.errors import ArgumentTypeError, UnsupportedError
from ninetoothed.runtime import private

# Types of tensors that PyTorch's functions ask nothing; `type(x) in PLAIN` takes less time than `isinstance`.
PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
PLAIN_OR_NONE = PLAIN | {type(None)}
NUMBERS = (int, float, complex)
_LISTS = (list, tuple)  # A union of types would be made anew each time it is asked.
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_TYPES = {float: torch.float64, int: torch.int64, bool: torch.bool, complex: torch.complex128}

# Reads an argument; raises TypeError, with what it takes, for what it cannot read.
Reader = Callable[[Any], Any]


def read(name: str, namesake: Callable | None, *args: Any, **named: Any) -> list:
    """Read arguments of the public function `name`, by position or by name.

    For an argument that its reader refuses, raises what PyTorch's `namesake` raises, else `ArgumentTypeError`; for one
    whose class PyTorch's functions ask (`are_overridden`), and which nobody has asked, `UnsupportedError`.
    """
    readers = _READERS[name]
    given = {**dict(zip(readers, args)), **named}
    if (overriding := _overriding(given.values())) is not None:
        raise UnsupportedError(
            f"ninetoothed::{name} is given a {overriding.__name__}, whose __torch_function__ computes PyTorch's "
            "functions, and there is none of these arguments; pass a plain tensor of its values"
        )
    values = []
    for parameter, value in given.items():
        try:
            values.append(readers[parameter](value))
        except TypeError as expected:
            if namesake is not None:
                namesake(**given)
            message = f"ninetoothed::{name} takes {expected} for {parameter}, but got {value!r}"
            raise ArgumentTypeError(f"{message} of type {type(value).__name__}") from None
    return values


def call(operator: Callable, name: str, namesake: Callable, *args: Any) -> Any:
    """Call an operator with what is read of the arguments, or its namesake where PyTorch's function is asked."""
    is_overridden = are_overridden(*args, takes_nested=True)
    return namesake(*args) if is_overridden else operator(*read(name, namesake, *args))


def are_overridden(*args: Any, takes_nested: bool = False) -> bool:
    """Tell whether the class of an argument has a `__torch_function__` of its own, which PyTorch's functions ask.

    It knows PyTorch's function and no other: the bias of `torch.nn.attention.bias` is a tensor whose memory nobody
    wrote, which `scaled_dot_product_attention` alone can tell. That of the namesake is then what is to be called.
    So are nested tensors of layout `torch.jagged`, unless the operator takes them.
    """
    return _overriding(args, takes_nested) is not None


def _overriding(args: Iterable[Any], takes_nested: bool = True) -> type | None:
    for cls in map(type, args):
        if takes_nested and private.is_jagged_class(cls):
            continue
        asked = getattr(cls, "__torch_function__", private.disabled_torch_function)
        if cls not in PLAIN and asked is not private.disabled_torch_function:
            # Each class has a method of its own of the function that it inherits.
            if getattr(asked, "__func__", asked) is not torch.Tensor.__torch_function__.__func__:  # type: ignore[attr-defined]
                return cls
    return None


def are_integers(values: Any) -> bool:
    """Tell whether a value is a list or tuple of Python's integers."""
    if not isinstance(values, _LISTS):
        return False
    for value in values:
        if type(value) is not int:
            return False
    return True


def tensor(value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise TypeError("a tensor")
    return value


def number(value: Any) -> Any:
    if isinstance(value, NUMBERS + _SYMBOLS):
        return value
    if isinstance(value, np.number) or _is_constant(value):
        return value.item()
    if isinstance(value, np.bool_):  # PyTorch's reading of it
        return float(value)
    raise TypeError("a number")


def real(value: Any) -> Any:
    result = number(value)
    if isinstance(result, complex):
        raise TypeError("a real number")
    return result


def integer(value: Any) -> int | torch.SymInt:
    if type(value) is int or isinstance(value, torch.SymInt):
        return value
    if isinstance(value, torch.Tensor):
        is_integer = _is_constant(value) and value.dtype is not torch.bool and not value.dtype.is_floating_point
    else:
        is_integer = hasattr(value, "__index__") and not isinstance(value, bool | np.bool_ | np.ndarray)
    if not is_integer:
        raise TypeError("an integer")
    return operator.index(value)


def integers(value: Any) -> tuple[int | torch.SymInt, ...]:
    if not isinstance(value, (list, tuple)):
        raise TypeError("a list or tuple of integers")
    return tuple(map(integer, value))


def one_or_more(value: Any) -> tuple[int | torch.SymInt, ...]:
    return integers(value) if isinstance(value, (list, tuple)) else (integer(value),)


def flag(value: Any) -> bool | torch.SymBool:
    if not isinstance(value, (bool, torch.SymBool)):
        raise TypeError("True or False")
    return value


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a string")
    return value


def scalar_type(value: Any) -> torch.dtype:
    if isinstance(value, torch.dtype):
        return value
    if isinstance(value, type) and value in _TYPES:
        return _TYPES[value]
    raise TypeError("a torch.dtype")


def optional(reader: Reader) -> Reader:
    """Make a reader that takes None too."""
    return lambda value: None if value is None else reader(value)


def _is_constant(value: Any) -> TypeGuard[torch.Tensor]:
    """Tell whether a value is a tensor that PyTorch takes for a number."""
    return isinstance(value, torch.Tensor) and value.ndim == 0 and not value.requires_grad


# Readers of what public functions are annotated with.
_OF_TYPES = {torch.Tensor: tensor, float: real, int: integer, bool: flag, str: text, torch.dtype: scalar_type}
_OF_ANNOTATIONS: dict[Any, Reader] = {
    **_OF_TYPES,
    **{cls | None: optional(reader) for cls, reader in _OF_TYPES.items()},
    Sequence[int]: integers,
    int | Sequence[int]: one_or_more,
}
# By the name of a public function and that of a parameter.
_READERS: dict[str, dict[str, Reader]] = {}

Function = TypeVar("Function", bound=Callable)


def by_annotations(**others: Reader) -> Callable[[Function], Function]:
    """Let the arguments of a function be read as its parameters are annotated; `others` as is said here."""

    def known(function: Function) -> Function:
        types = {name: each.annotation for name, each in inspect.signature(function).parameters.items()}
        readers = {name: others.get(name) or _OF_ANNOTATIONS.get(cls) for name, cls in types.items()}
        _READERS[function.__name__] = {name: reader for name, reader in readers.items() if reader is not None}
        return function

    return known

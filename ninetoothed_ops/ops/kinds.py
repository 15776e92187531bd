"""The kinds of arguments that front doors take: Python's own, and what PyTorch reads as one of them.

PyTorch takes a number of NumPy's or a tensor of no dimensions for a number, and raises TypeError for an argument of
another kind. An operator, which knows its schema alone, takes fewer kinds, and some that PyTorch does not. A front door
tells by a glance at the types whether all is Python's own; only where it is not are the arguments read here.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from ninetoothed.errors import ArgumentTypeError

NUMBERS = (int, float, complex)
_LISTS = (list, tuple)  # A union of types would be made anew each time it is asked.
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_TYPES = {float: torch.float64, int: torch.int64, bool: torch.bool, complex: torch.complex128}

# Reads an argument; raises TypeError, with what it takes, for what it cannot read.
Kind = Callable[[Any], Any]


def read(name: str, namesake: Callable | None, kinds: Mapping[str, Kind], *args) -> list:
    """The arguments of the front door `name`, of these names and kinds; for another kind, what `namesake` raises."""
    values = []
    for (parameter, kind), value in zip(kinds.items(), args):
        try:
            values.append(kind(value))
        except TypeError as expected:
            if namesake is not None:
                namesake(**dict(zip(kinds, args)))
            message = f"ninetoothed::{name} takes {expected} for {parameter}, but got {value!r}"
            raise ArgumentTypeError(f"{message} of type {type(value).__name__}") from None
    return values


def are_integers(values) -> bool:
    """Whether they are Python's integers, in a list or tuple."""
    if not isinstance(values, _LISTS):
        return False
    for value in values:
        if type(value) is not int:
            return False
    return True


def tensor(value) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise TypeError("a tensor")
    return value


def number(value) -> int | float | complex:
    if isinstance(value, NUMBERS + _SYMBOLS):
        return value
    if isinstance(value, np.number) or _is_constant(value):
        return value.item()
    if isinstance(value, np.bool_):  # PyTorch's reading of it
        return float(value)
    raise TypeError("a number")


def real(value) -> int | float:
    result = number(value)
    if isinstance(result, complex):
        raise TypeError("a real number")
    return result


def integer(value) -> int:
    if type(value) is int or isinstance(value, torch.SymInt):
        return value
    if isinstance(value, torch.Tensor):
        is_integer = _is_constant(value) and value.dtype is not torch.bool and not value.dtype.is_floating_point
    else:
        is_integer = hasattr(value, "__index__") and not isinstance(value, bool | np.bool_ | np.ndarray)
    if not is_integer:
        raise TypeError("an integer")
    return operator.index(value)


def integers(value) -> tuple[int, ...]:
    if not isinstance(value, (list, tuple)):
        raise TypeError("a list or tuple of integers")
    return tuple(map(integer, value))


def one_or_more(value) -> tuple[int, ...]:
    return integers(value) if isinstance(value, (list, tuple)) else (integer(value),)


def flag(value) -> bool:
    if not isinstance(value, (bool, torch.SymBool)):
        raise TypeError("True or False")
    return value


def scalar_type(value) -> torch.dtype:
    if isinstance(value, torch.dtype):
        return value
    if isinstance(value, type) and value in _TYPES:
        return _TYPES[value]
    raise TypeError("a torch.dtype")


def optional(kind: Kind) -> Kind:
    """None, or what `kind` reads."""
    return lambda value: None if value is None else kind(value)


def _is_constant(value) -> bool:
    """Whether it is a tensor that PyTorch takes for a number."""
    return isinstance(value, torch.Tensor) and value.ndim == 0 and not value.requires_grad

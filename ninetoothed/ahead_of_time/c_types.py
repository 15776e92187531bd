"""Say arguments in C: their types, and the conditions of their classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ninetoothed.built.description import BuiltArgument


def class_of(argument: BuiltArgument, name: str) -> Iterator[tuple[str, str]]:
    """Yield the conditions of an argument's class, and how they are said."""
    if argument.role == "absent" or argument.optional:
        return
    if argument.role == "tensor":
        kind = f"NINETOOTHED_{str(argument.dtype).upper()}"
        yield f"{name}.ndim == {argument.rank}", f"{argument.name} has {argument.rank} dimensions"
        yield f"{name}.dtype == {kind}", f"{argument.name} is of {argument.dtype}"
        if argument.aligned:
            yield f"(uintptr_t){name}.data % 16 == 0", f"the address of {argument.name} is a multiple of 16"
    elif argument.role == "constant":
        yield equals(name, argument.value, argument.value), f"{argument.name} is {argument.value}"
    elif argument.dtype == "int32":
        within = f"INT64_C(-2147483648) <= {name} && {name} < INT64_C(2147483648)"
        yield within, f"{argument.name} is an integer of 32 bits"


def type_of(argument: BuiltArgument) -> str:
    if argument.role in ("tensor", "absent"):
        return "NineToothedTensor "
    if argument.role == "constant":
        return type_of_value(argument.value)
    is_float = str(argument.dtype).startswith(("float", "bfloat"))
    return "double " if is_float else "uint64_t " if argument.dtype == "uint64" else "int64_t "


def type_of_value(value: Any) -> str:
    return "double " if isinstance(value, float) else "int64_t " if isinstance(value, int) else "const char *"


def equals(name: str, like: Any, value: Any) -> str:
    """Print the condition that a variable, of the type of `like`, has a value."""
    if isinstance(like, float):
        return f"{name} == {float(value)!r}" if value == value else f"{name} != {name}"
    if isinstance(like, int):
        return f"{name} == INT64_C({int(value)})"
    return f"{name} == NULL" if value is None else f'{name} != NULL && strcmp({name}, "{value}") == 0'

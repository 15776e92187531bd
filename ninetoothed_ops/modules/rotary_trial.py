"""Functions that rotate, recognised by what they compute.

A function is called on a few small tensors. Where `rope` gives the same, in one of its forms, a RotaryFunction may
stand for it. A name or a signature alone is never enough.
"""

import functools
import inspect
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import FunctionType
from typing import Any, TypeGuard

import torch

from .rotary import Rotary, RotaryFunction

# Between float32 as PyTorch computes it, in several steps, and as we do.
TOLERANCE = 1e-5
# Heads of so many columns, of which so many rotate.
WHOLE, PARTIAL = (8, 8), (12, 8)
# The names of tables, as functions take them.
TABLES = (("cos", "sin"), ("sin", "cos"), ("freqs_cis",))


def rotary_functions(function: FunctionType) -> dict[str, RotaryFunction | str]:
    """Find the functions that take tables of angles among those that a function calls by their names in its file.

    Each name comes with what may stand for it, or with the reason why nothing may.
    """
    file = function.__globals__
    return {name: recognised(file, name) for name in function.__code__.co_names if _takes_tables(file.get(name))}


def _takes_tables(function: Any) -> TypeGuard[FunctionType]:
    if not isinstance(function, FunctionType):
        return False
    names = set(function.__code__.co_varnames[: function.__code__.co_argcount])
    return any(names.issuperset(tables) for tables in TABLES)


def recognised(file: Mapping[str, Any], name: str) -> RotaryFunction | str:
    """Give what may stand for the function of a file that rotates, or the reason why nothing may."""
    function = file.get(name)
    if not _takes_tables(function):
        return f"its {name} takes no tables"
    if function.__globals__ is not file or function.__name__ != name:
        return f"its {name} was patched"
    try:
        found = _tried(function, _called_by(function))
    except Exception as error:  # whatever it asks for that these calls have not
        return f"its {name} could not be tried: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return f"its {name} rotates in a way of its own" if found is None else found


def _called_by(function: FunctionType) -> tuple[tuple[str, Any], ...]:
    """Find what a function calls by name in its file, itself included: that may be patched between two trials."""
    file = function.__globals__
    names = (function.__name__, *function.__code__.co_names)
    return tuple((name, file[name]) for name in names if callable(file.get(name)))


@functools.cache
def _tried(function: FunctionType, called: tuple[tuple[str, Any], ...]) -> RotaryFunction | None:
    """Call a function on small tensors, and find the form of `rope` that gives the same."""
    parameters = inspect.signature(function).parameters
    names = tuple(parameters)
    places = ((i, tables) for i in (1, 2) for tables in TABLES if names[i : i + len(tables)] == tables)
    states, tables = next(places, (0, ()))
    others = [parameters[name] for name in names[states + len(tables) :]]
    options = {each.name: each.default for each in others if each.kind is not each.VAR_KEYWORD}
    if not states or inspect.Parameter.empty in options.values():
        return None
    takes_dim = "unsqueeze_dim" in options
    heads = (options["unsqueeze_dim"] - 4,) if takes_dim else (-3, -2)
    for dims, place, rotary in itertools.product(((3,),) if takes_dim else ((3,), (2,)), heads, _forms()):
        candidate = RotaryFunction(function, called, function.__globals__, states, tables, options, place, rotary, dims)
        if _agrees(candidate, *WHOLE):
            return _completed(candidate, takes_dim)
    return None


def _forms() -> Iterator[Rotary]:
    """List the forms that differ where every column rotates, the most common first."""
    for columns in ("whole", "doubled", "halved"):
        for interleaved, interleaved_output in ((False, None), (True, None), (True, False), (False, True)):
            yield Rotary(interleaved, interleaved_output, columns)


def _completed(found: RotaryFunction, takes_dim: bool) -> RotaryFunction | None:
    """Find out what a function does with wider heads, with tables without a batch, and with types that differ.

    None is for a function that rotates a part of wider heads as no form does, or a part of the tokens.
    """
    if _called(found, WHOLE[0], WHOLE[1], rows=4) is not None:
        return None
    flat = replace(found, dims=(2,))
    if found.dims == (3,) and _agrees(flat, *WHOLE, takes_dim=takes_dim):
        found = replace(found, dims=(3, 2))
    partial = replace(found, rotary=replace(found.rotary, is_partial=True))
    agrees = _agrees(partial, *PARTIAL)
    if agrees is not None:
        found = partial
        if not agrees:
            return None
    states, tables = _arguments(found, *WHOLE)
    mixed = _listed(found.original(*(each.bfloat16() for each in states), *tables))
    keeps_type = all(each.dtype is torch.bfloat16 for each in mixed)
    return replace(found, rotary=replace(found.rotary, keeps_type=keeps_type))


def _agrees(candidate: RotaryFunction, width: int, rotated: int, takes_dim: bool = False) -> bool | None:
    """Tell whether a function and what may stand for it give the same, for heads of which so many columns rotate.

    None is for a function that takes no such heads.
    """
    options = {"unsqueeze_dim": candidate.heads + 3} if takes_dim else {}
    expected = _called(candidate, width, rotated, **options)
    if expected is None:
        return None
    states, tables = _arguments(candidate, width, rotated)
    with torch.no_grad():
        found = _listed(candidate(*states, *tables, **options))
    return len(found) == len(expected) and all(
        type(other) is torch.Tensor and each.shape == other.shape and bool(((each - other).abs() <= TOLERANCE).all())
        for each, other in zip(found, expected)
    )


def _called(candidate: RotaryFunction, width: int, rotated: int, rows: int = 5, **options: int) -> list | None:
    """Call the family's function; None if it does not take these shapes."""
    states, tables = _arguments(candidate, width, rotated, rows)
    try:
        with torch.no_grad():
            return _listed(candidate.original(*states, *tables, **options))
    except (RuntimeError, IndexError, ValueError):
        return None


def _arguments(
    candidate: RotaryFunction, width: int, rotated: int, rows: int = 5
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Make states of five tokens and different numbers of heads, and tables in which no angle comes twice."""
    columns = rotated // 2 if candidate.rotary.columns == "halved" else rotated
    states = [_numbers(2, 5, heads, width) for heads in (3, 1)[: candidate.states]]
    both = {"cos": _numbers(2, rows, columns) + 0.1, "sin": _numbers(2, rows, columns) - 0.2}
    tables = [both[name] if name in both else torch.complex(both["cos"], both["sin"]) for name in candidate.tables]
    if candidate.heads == -3:
        states = [each.transpose(1, 2) for each in states]
    if candidate.dims == (2,):
        tables = [each[0] for each in tables]
        states = [each[0] for each in states] if candidate.heads == -2 else states
    return states, tables


def _numbers(*shape: int) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return torch.arange(1, count + 1, dtype=torch.float32, device="cpu").mul(1.7).sin().reshape(shape)


def _listed(output: Any) -> list:
    return list(output) if isinstance(output, tuple) else [output]

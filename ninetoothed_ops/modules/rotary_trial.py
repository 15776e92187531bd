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


def rotary_functions(function: FunctionType) -> dict[str, RotaryFunction | str]:
    """Find the functions with a `cos` and a `sin` that a function calls by their names in its file.

    Each name comes with what may stand for it, or with the reason why nothing may.
    """
    file = function.__globals__
    return {name: recognised(file, name) for name in function.__code__.co_names if _takes_tables(file.get(name))}


def _takes_tables(function: Any) -> TypeGuard[FunctionType]:
    if not isinstance(function, FunctionType):
        return False
    code = function.__code__
    return {"cos", "sin"} <= set(code.co_varnames[: code.co_argcount])


def recognised(file: Mapping[str, Any], name: str) -> RotaryFunction | str:
    """Give what may stand for the function of a file that rotates, or the reason why nothing may."""
    function = file.get(name)
    if not _takes_tables(function):
        return f"its {name} is no function of a cos and a sin"
    if function.__globals__ is not file or function.__name__ != name:
        return f"its {name} was patched"
    try:
        found = _tried(function)
    except Exception as error:  # whatever it asks for that these calls have not
        return f"its {name} could not be tried: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return f"its {name} rotates in a way of its own" if found is None else found


@functools.cache
def _tried(function: FunctionType) -> RotaryFunction | None:
    """Call a function on small tensors, and find the form of `rope` that gives the same."""
    parameters = inspect.signature(function).parameters
    names = list(parameters)
    states = min(names.index("cos"), names.index("sin"))
    others = [parameters[name] for name in names[states + 2 :]]
    if states not in (1, 2) or {*names[states : states + 2]} != {"cos", "sin"}:
        return None
    if any(each.default is each.empty and each.kind is not each.VAR_KEYWORD for each in others):
        return None
    dims = (parameters["unsqueeze_dim"].default - 4,) if "unsqueeze_dim" in names else (-3, -2)
    for heads, rotary in itertools.product(dims, _forms()):
        candidate = RotaryFunction(function, function.__globals__, states, names[states] == "sin", heads, rotary)
        if _agrees(candidate, *WHOLE):
            return _completed(candidate, "unsqueeze_dim" in names)
    return None


def _forms() -> Iterator[Rotary]:
    """List the forms that differ where every column rotates, the most common first."""
    for columns in ("whole", "doubled", "halved"):
        for interleaved, interleaved_output in ((False, None), (True, None), (True, False), (False, True)):
            yield Rotary(interleaved, interleaved_output, columns)


def _completed(found: RotaryFunction, takes_dim: bool) -> RotaryFunction | None:
    """Find out what a function does with wider heads, with tables without a batch, and with types that differ.

    One that rotates a part of wider heads as no form does is for these alone: None.
    """
    flat = replace(found, takes_flat=True)
    found = flat if _agrees(flat, *WHOLE, takes_dim=takes_dim) else found
    partial = replace(found, takes_flat=False, rotary=replace(found.rotary, is_partial=True))
    agrees = _agrees(partial, *PARTIAL)
    if agrees is not None:
        found = replace(found, rotary=partial.rotary)
        if not agrees:
            return None
    states, tables = _arguments(replace(found, takes_flat=False), *WHOLE)
    mixed = _listed(found.original(*(each.bfloat16() for each in states), *tables))
    keeps_type = all(each.dtype is torch.bfloat16 for each in mixed)
    return replace(found, rotary=replace(found.rotary, keeps_type=keeps_type))


def _agrees(candidate: RotaryFunction, width: int, rotated: int, takes_dim: bool = False) -> bool | None:
    """Tell whether a function and what may stand for it give the same, for heads of which so many columns rotate.

    None is for a function that takes no such heads.
    """
    states, tables = _arguments(candidate, width, rotated)
    options = {"unsqueeze_dim": candidate.heads + 3} if takes_dim else {}
    with torch.no_grad():
        try:
            expected = _listed(candidate.original(*states, *tables, **options))
        except (RuntimeError, IndexError, ValueError):  # of shapes that do not fit
            return None
        found = _listed(candidate(*states, *tables, **options))
    return len(found) == len(expected) and all(
        type(other) is torch.Tensor and each.shape == other.shape and bool(((each - other).abs() <= TOLERANCE).all())
        for each, other in zip(found, expected)
    )


def _arguments(candidate: RotaryFunction, width: int, rotated: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Make states of different numbers of heads, and tables in which no angle comes twice."""
    columns = rotated // 2 if candidate.rotary.columns == "halved" else rotated
    states = [_numbers(2, 5, heads, width) for heads in (3, 1)[: candidate.states]]
    tables = [_numbers(2, 5, columns) + 0.1, _numbers(2, 5, columns) - 0.2]
    if candidate.heads == -3:
        states = [each.transpose(1, 2) for each in states]
    if candidate.takes_flat:
        tables = [each[0] for each in tables]
        states = [each[0] for each in states] if candidate.heads == -2 else states
    return states, tables


def _numbers(*shape: int) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return torch.arange(1, count + 1, dtype=torch.float32, device="cpu").mul(1.7).sin().reshape(shape)


def _listed(output: Any) -> list:
    return list(output) if isinstance(output, tuple) else [output]

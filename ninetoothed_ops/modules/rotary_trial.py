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
from typing import Any, NamedTuple, TypeGuard

import torch

from .overrides import are_overridden
from .rotary import POSITIONS, Rotary, RotaryFunction, Way

# Between float32 as PyTorch computes it, in several steps, and as we do.
TOLERANCE = 1e-5
# The names of tables, as functions take them.
TABLES = (("cos", "sin"), ("sin", "cos"), ("freqs_cis",), ("freqs_ci",))
HEADS = (3, 1, 2)
# The dimensions of states and of tables, and whether tables have an axis for heads: the most common first.
DIMS = ((4, 3, False), (4, 2, False), (3, 2, False), (4, 3, True))


class Sizes(NamedTuple):
    """The sizes of a trial: `rows` of the tables, of which so many columns are `rotated`, and `parts` of each."""

    batch: int = 2
    tokens: int = 5
    rows: int = 5
    width: int = 8
    rotated: int = 8
    parts: int = 2


WHOLE, OTHER = Sizes(), Sizes(3, 7, 7, 12, 12, 3)
SHORT, PARTIAL = Sizes(rows=4), Sizes(width=12)


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
    if are_overridden():
        return f"its {name} cannot be tried under a TorchFunctionMode"
    try:
        found = _tried(function, _called_by(function))
    except Exception as error:  # whatever it asks for that these calls have not
        return f"its {name} could not be tried: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return f"its {name} rotates in a way of its own" if found is None else found


def _called_by(function: FunctionType) -> tuple[tuple[str, Any], ...]:
    """Find what a function calls by name in its file, and what that calls: all of it may be patched between trials."""
    file, found, pending = function.__globals__, {}, [function.__name__]
    while pending:
        name = pending.pop()
        called = file.get(name)
        if name not in found and callable(called):
            found[name] = called
            is_own = isinstance(called, FunctionType) and called.__globals__ is file
            pending.extend(called.__code__.co_names if is_own else ())
    return tuple(found.items())


@functools.cache
def _tried(function: FunctionType, called: tuple[tuple[str, Any], ...]) -> RotaryFunction | None:
    """Call a function on small tensors, and find the form of `rope` that gives the same."""
    parameters = inspect.signature(function).parameters
    names = tuple(parameters)
    places = ((i, tables) for i in (1, 2, 3) for tables in TABLES if names[i : i + len(tables)] == tables)
    states, tables = next(places, (0, ()))
    others = [parameters[name] for name in names[states + len(tables) :]]
    options = {each.name: each.default for each in others if each.kind is not each.VAR_KEYWORD}
    meanings: tuple[str | None, ...] = (None,)
    if others and others[0].name == POSITIONS and options[POSITIONS] is inspect.Parameter.empty:
        del options[POSITIONS]
        meanings = ("rows", "parts")
    if not states or inspect.Parameter.empty in options.values():
        return None
    for positions, way, rotary in itertools.product(meanings, _ways("unsqueeze_dim" in options), _forms()):
        candidate = RotaryFunction(function, called, function.__globals__, states, tables, options, (way,), rotary)
        candidate = replace(candidate, positions=positions)
        if _agrees(candidate, WHOLE):
            return _completed(candidate)
    return None


def _ways(takes_dim: bool) -> list[Way]:
    """List how states and tables may lie; tables with an axis for heads need no `unsqueeze_dim`."""
    ways = [Way(heads, *dims) for dims, heads in itertools.product(DIMS, (-3, -2))]
    return [way for way in ways if not (takes_dim and way.has_axis)]


def _forms() -> Iterator[Rotary]:
    """List the forms that differ where every column rotates, the most common first."""
    layouts = ((False, None), (True, None), (True, False), (False, True))
    for is_reversed, columns in itertools.product((False, True), ("whole", "doubled", "halved")):
        for interleaved, interleaved_output in layouts:
            yield Rotary(interleaved, interleaved_output, columns, is_reversed=is_reversed)


def _completed(found: RotaryFunction) -> RotaryFunction | None:
    """Find out what a function does in other ways, with other sizes, and with types that differ.

    None is for a function that rotates a part of wider heads as no form does, or a part of the tokens.
    """
    if not _agrees(found, OTHER):
        return None
    takes_dim, ways = "unsqueeze_dim" in found.options, {}
    for way in (*found.ways, *_ways(takes_dim)):
        key = way[:3] if takes_dim else way[1:3]
        if key not in ways and _agrees(replace(found, ways=(way,)), WHOLE):
            ways[key] = way
    extended = _extended(replace(found, ways=tuple(ways.values())), SHORT, {"keeps_first": True})
    parts = [{"rotary": replace(found.rotary, rotates=rotates)} for rotates in ("first", "last")]
    extended = extended and _extended(extended, PARTIAL, *parts)
    if extended is None:
        return None
    states, others, options = _arguments(extended, WHOLE)
    mixed = {
        each.dtype for each in _listed(extended.original(*(each.bfloat16() for each in states), *others, **options))
    }
    if mixed not in ({torch.bfloat16}, {torch.float32}):
        return None
    return replace(extended, rotary=replace(extended.rotary, keeps_type=mixed == {torch.bfloat16}))


def _extended(found: RotaryFunction, sizes: Sizes, *changes: dict[str, Any]) -> RotaryFunction | None:
    """Find the change with which `found` agrees for other sizes; it needs none if the function takes no such."""
    if _called(found, sizes) is None:
        return found
    candidates = (replace(found, **change) for change in changes)
    return next((each for each in candidates if _agrees(each, sizes)), None)


def _agrees(candidate: RotaryFunction, sizes: Sizes) -> bool:
    """Tell whether a function and what may stand for it give the same, in the first of its ways."""
    expected = _called(candidate, sizes)
    if expected is None:
        return False
    states, others, options = _arguments(candidate, sizes)
    with torch.no_grad():
        rotated = candidate.rotated((*states, *others), options)
    if rotated is None:
        return False
    found = _listed(rotated)
    return len(found) == len(expected) and all(
        type(other) is torch.Tensor and each.shape == other.shape and bool(((each - other).abs() <= TOLERANCE).all())
        for each, other in zip(found, expected)
    )


def _called(candidate: RotaryFunction, sizes: Sizes) -> list | None:
    """Call the family's function; None if it does not take these shapes."""
    states, others, options = _arguments(candidate, sizes)
    try:
        with torch.no_grad():
            return _listed(candidate.original(*states, *others, **options))
    except (RuntimeError, IndexError, ValueError):
        return None


def _arguments(
    candidate: RotaryFunction, sizes: Sizes
) -> tuple[list[torch.Tensor], list[torch.Tensor], dict[str, int]]:
    """Make states of different numbers of heads, tables in which no angle comes twice, and what a function asks for."""
    way = candidate.ways[0]
    leading = (sizes.rows, 1) if way.has_axis else (sizes.batch, sizes.rows)[3 - way.table_dims :]
    columns = sizes.rotated // 2 if candidate.rotary.columns == "halved" else sizes.rotated
    states = [_numbers(1.7, sizes.batch, sizes.tokens, heads, sizes.width) for heads in HEADS[: candidate.states]]
    states = [each if way.dims == 4 else each[0] for each in states]
    states = [each.transpose(-3, -2) if way.heads == -3 else each for each in states]
    positions = torch.arange(torch.Size(leading).numel(), device="cpu").flip(0).reshape(leading)
    shape = (positions.numel() + 2, columns) if candidate.positions == "rows" else (*leading, columns)
    both = {"cos": _numbers(1.3, *shape) + 0.1, "sin": _numbers(2.1, *shape) - 0.2}
    tables = [both[name] if name in both else torch.complex(both["cos"], both["sin"]) for name in candidate.tables]
    if candidate.positions == "parts":
        positions = positions.unsqueeze(-1).expand(*leading, sizes.parts)
    others = tables if candidate.positions is None else [*tables, positions]
    options = {"unsqueeze_dim": way.heads + way.table_dims + 1} if "unsqueeze_dim" in candidate.options else {}
    return states, others, options


def _numbers(step: float, *shape: int) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return torch.arange(1, count + 1, dtype=torch.float32, device="cpu").mul(step).sin().reshape(shape)


def _listed(output: Any) -> list:
    return list(output) if isinstance(output, tuple) else [output]

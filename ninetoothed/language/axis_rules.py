"""Signatures of axes that attributes decide on, and the moves of lanes that no signature tells: a function each.

The first give a signature for the lanes of operands and results (without those that are scalars); None where these do
not fit together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ninetoothed.expr import Expr, const
from ninetoothed.language.axes import Lanes

AxisRule = Callable[[Sequence[Lanes], Sequence[Any], Mapping[str, Any]], str | None]
# Give the lanes of a tile of `own` lanes by those of another, which are `lanes` of so many: the axes that the function
# knows. Of operand and result, either may be the tile.
Moves = Callable[[Lanes, Sequence[Expr], Lanes, Mapping[str, Any]], dict[int, Expr]]


def _marked(lanes: Lanes, attributes: Mapping[str, Any]) -> list[str] | None:
    """a [b] c, for axis=1; [a] [b] [c] without an axis; None where there is no such axis"""
    axis, rank = attributes.get("axis"), len(lanes)
    if not rank or (axis is not None and not -rank <= axis < rank):
        return None
    return [f"[a{a}]" if axis is None or a == axis % rank else f"a{a}" for a in range(rank)]


def _without_marks(names: list[str], instead: Sequence[str] = ()) -> str:
    return " ".join(new for name in names for new in (instead if name.startswith("[") else [name]))


def along(operands: Sequence[Lanes], results: Sequence[Any], attributes: Mapping[str, Any]) -> str | None:
    """a [b] c -> a [b] c, for axis=1"""
    names = _marked(operands[0], attributes)
    return f"{' '.join(names)} -> {' '.join(names)}" if names and len(operands) == len(results) else None


def reduction(operands: Sequence[Lanes], results: Sequence[Any], attributes: Mapping[str, Any]) -> str | None:
    """a [b] c -> a c, for axis=1; a [b] c -> a 1 c with keep_dims; [a] [b] [c] -> without an axis"""
    names = _marked(operands[0], attributes)
    if not names or len(operands) != len(results):
        return None
    return f"{' '.join(names)} -> {_without_marks(names, ['1'] if attributes.get('keep_dims') else [])}"


def expand_dims(operands: Sequence[Lanes], results: Sequence[Any], attributes: Mapping[str, Any]) -> str | None:
    """a c -> a 1 c, for axis=1"""
    names = _marked((*operands[0], 1), attributes)
    return f"{_without_marks(names)} -> {_without_marks(names, ['1'])}" if names else None


def permute(operands: Sequence[Lanes], results: Sequence[Any], attributes: Mapping[str, Any]) -> str | None:
    """a b -> b a, for dims=(1, 0)"""
    names, dims = [f"a{a}" for a in range(len(operands[0]))], attributes["dims"]
    return f"{' '.join(names)} -> {' '.join(names[d] for d in dims)}" if sorted(dims) == [*range(len(names))] else None


def reshape(operands: Sequence[Lanes], results: Sequence[Any], attributes: Mapping[str, Any]) -> str | None:
    """a b c -> a 1 b [d] [e]; an axis is kept where as many lanes are before it"""
    sides = [[f"a{math.prod(lanes[:a])}x{n}" for a, n in enumerate(lanes)] for lanes in (*operands, *results)]
    kept = set(sides[0]).intersection(sides[1])
    texts = (" ".join(name if name in kept else f"[{name}]" for name in names) for names in sides)
    return " -> ".join(texts) if math.prod(operands[0]) == math.prod(results[0]) else None


def cat(operands: Sequence[Lanes], results: Sequence[Any], attributes: Mapping[str, Any]) -> str:
    """[n], [n] -> [16], for n = 8"""
    return f"[n], [n] -> [{2 * math.prod(operands[0])}]"


def gather(operands: Sequence[Lanes], results: Sequence[Any], attributes: Mapping[str, Any]) -> str | None:
    """[a], [b] -> [b]: of as many axes, `axis` being one of them"""
    source, index = operands
    return "[a...], [b...] -> [b...]" if len(source) == len(index) and _marked(source, attributes) else None


def histogram(operands: Sequence[Lanes], results: Sequence[Any], attributes: Mapping[str, Any]) -> str:
    """[n], perhaps a mask [n] -> [16], for num_bins=16"""
    return f"[n] -> [{attributes['num_bins']}]"


def flipped(own: Lanes, other: Sequence[Expr], lanes: Lanes, attributes: Mapping[str, Any]) -> dict[int, Expr]:
    """Lane n is the last but n."""
    axis = attributes["axis"] % len(own)
    return {axis: own[axis] - 1 - other[axis]}


def reshaped(own: Lanes, other: Sequence[Expr], lanes: Lanes, attributes: Mapping[str, Any]) -> dict[int, Expr]:
    """Lanes are numbered row by row."""
    number = const(0)
    for place, count in zip(other, lanes, strict=True):
        number = number * count + place
    axes = (axis for axis, count in enumerate(own) if count > 1)
    return {axis: number // math.prod(own[axis + 1 :]) % own[axis] for axis in axes}

"""Which sizes and strides decide whether elements that lie side by side are read and written 16 bytes at once.

A vector is 8 halves, or 4 floats. Along a dimension of unit stride elements make whole vectors where all rows start and
end between two of them: where the strides of the other dimensions are multiples of 8, and so are the dimension's size
and what its index is made of. Multiples of 16 are told apart everywhere; those of 8 cost variants, and so only here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ninetoothed.arrangement import Arrangement
from ninetoothed.expr import as_expr, var
from ninetoothed.metaops import pull_back
from ninetoothed.symbol import plain_name

WHOLE = 8


@dataclass(frozen=True)
class SourceDimension:
    """One dimension of a source: the name of its stride, and the names in its size and in what indexes it."""

    stride: str
    names: frozenset[str]


def lines(arrangement: Arrangement) -> tuple[SourceDimension, ...]:
    """One for each dimension of the source."""
    indices = tuple(
        tuple(var(f"index {level} {dim}") for dim in range(len(shape)))
        for level, shape in enumerate(arrangement.levels)
    )
    for step in reversed(arrangement.steps):
        indices, _ = pull_back(step, indices)
    source = arrangement.source
    return tuple(
        SourceDimension(plain_name(stride), as_expr(size).variables | index.variables)
        for index, size, stride in zip(indices[0], source.sizes, source.strides, strict=True)
    )


def half_divisible(
    sources: Iterable[tuple[SourceDimension, ...]],
    constants: Mapping,
    aliases: Mapping[str, str],
    classes: Mapping[str, int],
) -> frozenset[str]:
    """Of the numbers that are told by class, those that matter here and are multiples of 8, and not of 16.

    sources: the lines of each tensor. constants: numbers that are told exactly. aliases: names for others.
    """
    names: set[str] = set()
    for source in sources:
        dense = [line for line in source if constants.get(line.stride) == 1]
        names = names.union({line.stride for line in source if dense}, *(line.names for line in dense))
    told = {aliases.get(name, name) for name in names} & classes.keys()
    return frozenset(name for name in told if classes[name] % (2 * WHOLE) == WHOLE)

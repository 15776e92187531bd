"""Signatures of axes, as einops writes them: which lanes of results come from which lanes of operands.

    ... m [k], ... [k] n -> ... m n

An axis is a name, or a number of lanes. Along an axis in brackets lanes are combined, or change their places; along any
other, a lane of a result comes from the lane of that number. `...` and `x...` are any number of axes. With `?` behind
it, an axis of one lane is repeated as often as the others of its name are long. The last tile of a side stands for all
that follow it, too.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

Lanes = tuple[int, ...]


@dataclass(frozen=True)
class Axes:
    """The names of the axes of each operand and each result of an application."""

    operands: tuple[tuple[str, ...], ...]
    results: tuple[tuple[str, ...], ...]

    def shared(self, operand: int = 0, result: int = 0) -> dict[int, int]:
        """Map the axes of an operand to those of a result that have their names."""
        places = {name: axis for axis, name in reversed([*enumerate(self.results[result])]) if not name.isdigit()}
        return {axis: places[name] for axis, name in enumerate(self.operands[operand]) if name in places}

    def kept(self, operand: int = 0, result: int = 0) -> dict[int, int]:
        """Map the axes of an operand to those of a result, lane by lane."""
        free = self.free(result)
        return {axis: other for axis, other in self.shared(operand, result).items() if other in free}

    def worked(self, operand: int = 0) -> frozenset[int]:
        """Return the axes of an operand along which lanes are combined, or change their places."""
        return frozenset(axis for axis, name in enumerate(self.operands[operand]) if name.startswith("["))

    def free(self, result: int = 0) -> frozenset[int]:
        """Return the axes of a result each of whose lanes is made of lanes of that number alone."""
        return frozenset(axis for axis, name in enumerate(self.results[result]) if not name.startswith("["))


@functools.lru_cache(4096)
def fit(text: str, operands: tuple[Lanes, ...], results: tuple[Lanes | None, ...]) -> Axes | None:
    """Name the axes of operands and results by a signature; None where their lanes do not fit it.

    Lanes of a result that are None follow from those of the operands.

    >>> fit("... m [k], ... [k] n -> ... m n", ((4, 8), (8, 16)), ((4, 16),))
    Axes(operands=(('m', '[k]'), ('[k]', 'n')), results=(('m', 'n'),))
    """
    found: dict[str, int] = {}
    sides = []
    for side, tiles in zip(text.split("->"), (operands, results), strict=True):
        patterns = [part.split() for part in side.split(",")]
        patterns += patterns[-1:] * (len(tiles) - len(patterns))
        sides.append(tuple(_named(pattern, lanes, found) for pattern, lanes in zip(patterns, tiles, strict=False)))
    named = [tuple(names for names in side if names is not None) for side in sides]
    return Axes(*named) if list(map(len, named)) == list(map(len, sides)) else None


def _named(pattern: Sequence[str], lanes: Lanes | None, found: dict[str, int]) -> tuple[str, ...] | None:
    """Name the axes of a tile; None where it has other lanes than are `found` for a name. Adds its own."""
    names: list[str] = []
    for name in pattern:
        if "..." not in name:
            names.append(name)
            continue
        count = found.get(name, 0) if lanes is None else len(lanes) - len(pattern) + 1
        if found.setdefault(name.removesuffix("?"), count) != count:
            return None
        names += [name.replace("...", f"...{number}") for number in range(count)]
    if lanes is not None and (len(names) != len(lanes) or not all(map(_fits, names, lanes, [found] * len(names)))):
        return None
    return tuple(name.removesuffix("?") for name in names)


def _fits(name: str, count: int, found: dict[str, int]) -> bool:
    if name.endswith("?") and count == 1:
        return True
    bare = name.strip("[]?")
    return count == (int(bare) if bare.isdigit() else found.setdefault(name.removesuffix("?"), count))

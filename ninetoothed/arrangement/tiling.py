"""Find how dimensions of an arranged tensor were cut: which sizes are behind a number of tiles.

    x.tile((B,))             x_size_0 by B                       ceil(x_size_0 / B) tiles
    x.tile((B,)).tile((2,))  x_size_0 by 2 * B
    x.flatten().tile((B,))   x_size_0 * x_size_1 by B
    x.tile((A, B)).flatten() x_size_0 by A, then x_size_1 by B   the product of both

Two dimensions that are cut alike have as many tiles for whatever block only where their sizes are equal: numbers of
tiles may agree for one block and not for another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ninetoothed.arrangement.metaops import follow
from ninetoothed.arrangement.value import Arrangement, Size, Step
from ninetoothed.expr import Expr, as_expr, cdiv, const


@dataclass(frozen=True)
class Tiling:
    """Tiles of `block` elements that cover `size` elements; blocks of 1 are elements themselves.

    is_plain: whether only elements are tiled, and no padding.
    """

    size: Expr
    block: Expr = const(1)
    is_plain: bool = True

    @property
    def is_whole(self) -> bool:
        """Tell whether each tile is one element."""
        return self.block == 1

    @property
    def count(self) -> Expr:
        """The number of tiles."""
        return self.size if self.is_whole else cdiv(self.size, self.block)


AnyTiling = TypeVar("AnyTiling", bound=Tiling)
# The tilings whose tiles, in all combinations, a dimension counts, the outermost first; of one tile there are none.
Tilings = tuple[Tiling, ...]


def tilings(arrangements: Sequence[Arrangement]) -> tuple[tuple[tuple[Tilings, ...], ...], ...]:
    """Return the tilings of every dimension of each level, for each arrangement."""
    own = [_history(arrangement, {})[-1] for arrangement in arrangements]
    # A dimension that is expanded to another tensor's number of tiles is cut as that one is.
    known = {
        as_expr(size): dimension
        for arrangement, levels in zip(arrangements, own, strict=True)
        for shape, dimensions in zip(arrangement.levels, levels, strict=True)
        for size, dimension in zip(shape, dimensions, strict=True)
        if any(not tiling.is_whole for tiling in dimension)
    }
    return tuple(
        _history(arrangement, known)[-1] if any(step.operation == "expand" for step in arrangement.steps) else levels
        for arrangement, levels in zip(arrangements, own, strict=True)
    )


def count(dimension: Tilings) -> Expr:
    """Count the tiles of a dimension."""
    return math.prod((tiling.count for tiling in dimension), start=const(1))


def cut_alike(a: Sequence[AnyTiling], b: Sequence[AnyTiling]) -> tuple[tuple[AnyTiling, AnyTiling], ...] | None:
    """Pair the tilings of dimensions that the same blocks cut: their tiles agree just where the sizes of pairs do.

    x.tile((B,)), y.tile((B,))    x_size_0 by B, y_size_0 by B
    x.tile((B,)), y.tile((C,))    None
    """
    is_same = [each.block for each in a] == [each.block for each in b] and all(each.is_plain for each in (*a, *b))
    return tuple(zip(a, b, strict=True)) if is_same else None


def squeezed(arrangement: Arrangement) -> Iterator[Tiling]:
    """Return the tilings of squeezed dimensions: each must have one tile in a call."""
    for step, levels in zip(arrangement.steps, _history(arrangement, {}), strict=False):
        if step.operation == "squeeze":
            yield from (tiling for dim in step.arguments[0] for tiling in levels[step.level][dim])


def _history(arrangement: Arrangement, known: Mapping[Expr, Tilings]) -> list[tuple[tuple[Tilings, ...], ...]]:
    """Return the tilings of all levels before the first step and after each."""
    levels = [tuple(map(_element, arrangement.source.sizes))]
    history = [tuple(levels)]
    for step in arrangement.steps:
        end = len(levels) if step.operation == "ravel" else step.level + 1
        replaced = levels[step.level : end]
        levels[step.level : end] = (
            _tiled(step, *replaced) if step.operation == "tile" else _moved(step, replaced, known)
        )
        history.append(tuple(levels))
    return history


def _tiled(step: Step, here: tuple[Tilings, ...]) -> list[tuple[Tilings, ...]]:
    """Return the tilings of the tiles, and of the elements of a tile, after `tile`."""
    (strides, dilations), (outer, inner) = step.arguments, step.after
    cut: list[Tilings] = []
    within: list[Tilings] = []
    for d, dimension in enumerate(here):
        if strides[d] == 0:  # the one tile of a whole dimension, which may be empty
            cut.append(())
            within.append(dimension)
        else:
            size, tile = as_expr(step.shape[d]), as_expr(inner[d])
            is_plain = dilations[d] == 1 and as_expr(strides[d]) == tile and as_expr(outer[d]) == cdiv(size, tile)
            cut.append(_cut(dimension, tile) if is_plain else _element(outer[d]))
            within.append(_element(inner[d]))
    return [tuple(cut), tuple(within)]


def _cut(dimension: Tilings, tile: Expr) -> Tilings:
    if tile == 1 or not dimension:
        return dimension
    if len(dimension) > 1:
        return (Tiling(count(dimension), tile),)
    return (replace(dimension[0], block=dimension[0].block * tile),)


def _moved(
    step: Step, levels: Sequence[tuple[Tilings, ...]], known: Mapping[Expr, Tilings]
) -> tuple[tuple[Tilings, ...], ...]:
    """Return the tilings of the levels after a step. known: of the sizes to which dimensions are expanded."""
    here = levels[0]

    def resized(d: int, size: Size) -> Tilings:
        is_same = as_expr(step.shape[d]) == as_expr(size)
        match step.operation:
            case "expand":
                return known.get(as_expr(size), _element(size)) if d in step.arguments[0] else here[d]
            case "pad":
                return here[d] if is_same else (Tiling(as_expr(size), is_plain=False),)
        return here[d] if is_same and step.arguments[1][d] == 1 else _part(here[d], size)

    def joined(dimensions: tuple[Tilings, ...], size: Size) -> Tilings:
        return _joined(tiling for dimension in dimensions for tiling in dimension)

    return follow(step, levels, (), resized, joined)


def _part(dimension: Tilings, size: Size) -> Tilings:
    is_plain = all(tiling.is_plain for tiling in dimension)
    return tuple(replace(tiling, is_plain=is_plain) for tiling in _element(size))


def _joined(dimension: Iterable[Tiling]) -> Tilings:
    """Join the tilings of flattened dimensions; neighbours that are elements make more elements."""
    joined: list[Tiling] = []
    for tiling in dimension:
        if joined and joined[-1].is_whole and tiling.is_whole:
            last = joined.pop()
            tiling = Tiling(last.size * tiling.size, is_plain=last.is_plain and tiling.is_plain)
        joined.append(tiling)
    return tuple(joined)


def _element(size: Size) -> Tilings:
    return () if as_expr(size) == 1 else (Tiling(as_expr(size)),)

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

from ninetoothed.arrangement import Arrangement, Size, Step
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


# The tilings whose tiles, in all combinations, a dimension counts, the outermost first; of one tile there are none.
Tilings = tuple[Tiling, ...]


def tilings(arrangements: Sequence[Arrangement]) -> tuple[tuple[tuple[Tilings, ...], ...], ...]:
    """Return the tilings of every dimension of each level, for each arrangement."""
    own = [_levels(arrangement, {}) for arrangement in arrangements]
    # A dimension that is expanded to another tensor's number of tiles is cut as that one is.
    known = {
        as_expr(size): dimension
        for arrangement, levels in zip(arrangements, own, strict=True)
        for shape, dimensions in zip(arrangement.levels, levels, strict=True)
        for size, dimension in zip(shape, dimensions, strict=True)
        if any(not tiling.is_whole for tiling in dimension)
    }
    return tuple(_levels(arrangement, known) for arrangement in arrangements)


def count(dimension: Tilings) -> Expr:
    """Count the tiles of a dimension."""
    return math.prod((tiling.count for tiling in dimension), start=const(1))


def are_alike(a: Tilings, b: Tilings) -> bool:
    """Tell whether dimensions are cut by the same blocks, so that they agree only if their sizes do."""
    pairs = zip(a, b, strict=False)
    return len(a) == len(b) and all(x.is_plain and y.is_plain and x.block == y.block for x, y in pairs)


def squeezed(arrangement: Arrangement) -> Iterator[Tiling]:
    """Return the tilings of squeezed dimensions: each must have one tile in a call."""
    for step, levels in zip(arrangement.steps, _history(arrangement, {}), strict=False):
        if step.operation == "squeeze":
            yield from (tiling for dim in step.arguments[0] for tiling in levels[step.level][dim])


def _levels(arrangement: Arrangement, known: Mapping[Expr, Tilings]) -> tuple[tuple[Tilings, ...], ...]:
    return _history(arrangement, known)[-1]


def _history(arrangement: Arrangement, known: Mapping[Expr, Tilings]) -> list[tuple[tuple[Tilings, ...], ...]]:
    """Return the tilings of all levels before the first step and after each."""
    levels = [_elements(arrangement.source.sizes)]
    history = [tuple(levels)]
    for step in arrangement.steps:
        here = levels[step.level]
        if step.operation == "ravel":
            levels[step.level :] = [tuple(dimension for shape in levels[step.level :] for dimension in shape)]
        elif step.operation == "tile":
            levels[step.level : step.level + 1] = _tiled(step, here)
        else:
            levels[step.level] = _moved(step, here, known)
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


def _moved(step: Step, here: tuple[Tilings, ...], known: Mapping[Expr, Tilings]) -> tuple[Tilings, ...]:
    """Return the tilings of a level after a step, given those before; `known` has those of sizes."""
    (after,) = step.after
    match step.operation:
        case "expand":
            dims, wanted = step.arguments
            return tuple(
                known.get(as_expr(wanted[d]), _element(wanted[d])) if d in dims else dimension
                for d, dimension in enumerate(here)
            )
        case "unsqueeze":
            (dim,) = step.arguments
            return (*here[:dim], (), *here[dim:])
        case "squeeze":
            (dims,) = step.arguments
            return tuple(dimension for d, dimension in enumerate(here) if d not in dims)
        case "permute":
            (dims,) = step.arguments
            return tuple(here[d] for d in dims)
        case "flatten":
            start, end = step.arguments
            return (
                *here[:start],
                _joined(tiling for dimension in here[start:end] for tiling in dimension),
                *here[end:],
            )
        case "pad":
            sizes = zip(step.shape, after, here, strict=True)
            return tuple(
                dimension if as_expr(size) == as_expr(padded) else (Tiling(as_expr(padded), is_plain=False),)
                for size, padded, dimension in sizes
            )
        case "index":
            _, strides, kept = step.arguments
            chosen = zip(kept, after, strict=True)
            return tuple(
                here[d] if strides[d] == 1 and as_expr(step.shape[d]) == as_expr(size) else _part(here[d], size)
                for d, size in chosen
            )
    raise AssertionError(step.operation)


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


def _elements(sizes: Iterable[Size]) -> tuple[Tilings, ...]:
    return tuple(_element(size) for size in sizes)


def _element(size: Size) -> Tilings:
    return () if as_expr(size) == 1 else (Tiling(as_expr(size)),)

"""What an arrangement tells of the work: which block sizes cut the grid, which a loop, and what they multiply.

Nothing is traced: the levels of the arranged tensors say it all. A block size in a formula of the outermost level cuts
the grid; one in a formula of a level below cuts a loop. Two tiles that share a loop's block as an inner dimension are
the operands of a matrix product.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ninetoothed.arrangement import Arrangement
from ninetoothed.definition import KernelDefinition
from ninetoothed.expr import Expr, FloorDiv, Max, Min, as_expr, const


@dataclass(frozen=True)
class Tile:
    """What one parameter loads at once: the parameter's position and the shape of its innermost level."""

    parameter: int
    shape: tuple[Expr, ...]


@dataclass(frozen=True)
class Product:
    """A matrix product of tiles (rows, depth) and (depth, columns), by the names of their block sizes.

    `depth` is cut by a loop. lhs, rhs: the positions of the parameters.
    """

    rows: str
    columns: str
    depth: str
    lhs: int
    rhs: int


@dataclass(frozen=True)
class Attention:
    """Tiles (rows, width) against a loop over tiles (keys, width): two products in it. lhs: the queries' position."""

    rows: str
    keys: str
    width: Expr
    lhs: int


@dataclass(frozen=True)
class Structure:
    """extents: for each block size the number of elements that it cuts; loops: the block sizes that cut loops."""

    tiles: tuple[Tile, ...]
    grid: tuple[Expr, ...]
    extents: Mapping[str, Expr]
    loops: Mapping[str, Expr]
    kind: Product | Attention | None


@functools.lru_cache(maxsize=8)
def structure(definition: KernelDefinition) -> Structure:
    """The structure of a kernel's arrangement."""
    used = [
        (i, p) for i, p in enumerate(definition.parameters) if p.touched and p.source.ndim and not p.source.constexpr
    ]
    blocks = frozenset(definition.symbols)
    extents: dict[str, Expr] = {}
    loops: dict[str, Expr] = {}
    for _, parameter in used:
        for level, shape in enumerate(parameter.arrangement.levels[:-1]):
            for size in map(as_expr, shape):
                for name in sorted(_divisors(size) & blocks):
                    extents.setdefault(name, _elements(size, blocks))
                    if level:
                        loops.setdefault(name, size)
    tiles = tuple(Tile(i, tuple(map(as_expr, p.innermost))) for i, p in used)
    for name in _uncut(tiles, [parameter.arrangement for _, parameter in used]) & blocks:
        extents.setdefault(name, const(1))
    grid = tuple(map(as_expr, used[0][1].outermost)) if used else ()
    return Structure(tiles, grid, extents, loops, _kind(tiles, loops, blocks))


def _uncut(tiles: tuple[Tile, ...], arrangements: Iterable[Arrangement]) -> frozenset[str]:
    """What tiles are sized by and no number of tiles depends on: it cuts one element, of which there is one tile."""
    counted: frozenset[str] = frozenset()
    for arrangement in arrangements:
        squeezes = (step for step in arrangement.steps if step.operation == "squeeze")
        squeezed = (step.shape[dim] for step in squeezes for dim in step.arguments[0])
        sizes = itertools.chain(squeezed, *arrangement.levels[:-1])
        counted = counted.union(*(as_expr(size).variables for size in sizes))
    return frozenset().union(*(size.variables for tile in tiles for size in tile.shape)) - counted


def _elements(size: Expr, blocks: frozenset[str]) -> Expr:
    """How many tiles there are if each has one element; the number of tiles where a part of a block would be 0."""
    try:
        return size.subs(dict.fromkeys(blocks, 1))
    except ZeroDivisionError:
        return size


def _divisors(size: Expr) -> frozenset[str]:
    """The names by which a formula divides."""
    found: frozenset[str] = frozenset()
    for atom in size.atoms:
        match atom:
            case FloorDiv(numerator, denominator):
                found |= denominator.variables | _divisors(numerator)
            case Min(operands) | Max(operands):
                found = found.union(*map(_divisors, operands))
    return found


def _kind(tiles: tuple[Tile, ...], loops: Mapping[str, Expr], blocks: frozenset[str]) -> Product | Attention | None:
    matrices = [(tile, *(_name(size, blocks) for size in tile.shape)) for tile in tiles if len(tile.shape) == 2]
    for lhs, rows, depth in matrices:
        if depth in loops and rows is not None and rows not in loops:
            for rhs, below, columns in matrices:
                if below == depth and columns is not None and columns not in loops:
                    return Product(rows, columns, depth, lhs.parameter, rhs.parameter)
    for lhs, rows, width in matrices:
        if rows is not None and rows not in loops and width is None:
            for _, keys, other in matrices:
                if keys in loops and other is None:
                    return Attention(rows, keys, lhs.shape[1], lhs.parameter)
    return None


def _name(size: Expr, blocks: frozenset[str]) -> str | None:
    """The block size that a dimension is, if it is one."""
    return next((name for name in size.variables & blocks if size == as_expr(name)), None)

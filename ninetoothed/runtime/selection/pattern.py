"""The pattern of a kernel, read off its arrangement: which block sizes cut the grid, which a loop, what they multiply.

Nothing is traced. A block size in a formula of the outermost level cuts the grid; one in a formula of a level below
cuts a loop. Two tiles that share a loop's block size as their inner dimension are the operands of a matrix product.
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
class LoadedTile:
    """The tile that a parameter loads at once: the parameter's position, and the shape of its innermost level."""

    parameter: int
    shape: tuple[Expr, ...]


@dataclass(frozen=True)
class Pattern:
    """The work of a kernel: lane by lane, or a row at a time, unless it is one of the classes below.

    tiles: what is loaded at once, one a parameter; none of a parameter that is only gathered from.
    grid: the shape of the outermost level.
    extents: the number of elements that each block size cuts into blocks.
    loops: the number of steps of each loop, by the block size that cuts it.
    """

    tiles: tuple[LoadedTile, ...]
    grid: tuple[Expr, ...]
    extents: Mapping[str, Expr]
    loops: Mapping[str, Expr]


@dataclass(frozen=True)
class ProductPattern(Pattern):
    """A matrix product of tiles (rows, depth) and (depth, columns), named by block sizes; a loop cuts the depth.

    lhs, rhs: the positions of the operands among the parameters. stacked: how many matrices a tile of `rhs` has, whose
    columns lie side by side in the product.
    """

    rows: str
    columns: str
    depth: str
    lhs: int
    rhs: int
    stacked: int = 1

    @property
    def operands(self) -> tuple[int, int]:
        """The positions of both operands."""
        return self.lhs, self.rhs


@dataclass(frozen=True)
class AttentionPattern(Pattern):
    """Tiles (rows, width) against a loop over tiles (keys, width): two products a step, or more for gradients.

    rows, keys: names of block sizes. query: the position of the parameter whose rows these are. row_tiles: how many
    tiles have so many rows and a width: a half of them is read, the other accumulated. row_vectors: how many have a
    number for each row.
    """

    rows: str
    keys: str
    width: Expr
    query: int
    row_tiles: int
    row_vectors: int

    @property
    def accumulators(self) -> int:
        """The number of tiles (rows, width) that are accumulated."""
        return self.row_tiles // 2

    @property
    def is_gradient(self) -> bool:
        """Tell whether scores and their gradients are computed, from further tiles of as many rows."""
        return self.row_tiles > 2


@functools.lru_cache(maxsize=8)
def pattern_of(definition: KernelDefinition) -> Pattern:
    """Return the pattern of a kernel's arrangement."""
    used = [
        (i, p) for i, p in enumerate(definition.parameters) if p.touched and p.source.ndim and not p.source.constexpr
    ]
    blocks = frozenset(definition.symbols)
    extents: dict[str, Expr] = {}
    loops: dict[str, Expr] = {}
    for _, parameter in used:
        for level, shape in enumerate(parameter.arrangement.levels[:-1]):
            for size in map(as_expr, shape):
                for name in filter(_divisors(size).__contains__, definition.symbols):
                    extents.setdefault(name, _elements(size, blocks))
                    if level:
                        loops.setdefault(name, size)
    tiles = tuple(LoadedTile(i, tuple(map(as_expr, p.innermost))) for i, p in used if p.tiled)
    for name in _uncut(tiles, [parameter.arrangement for _, parameter in used]) & blocks:
        extents.setdefault(name, const(1))
    grid = tuple(map(as_expr, used[0][1].outermost)) if used else ()
    return _classified(Pattern(tiles, grid, extents, loops), blocks)


def _uncut(tiles: tuple[LoadedTile, ...], arrangements: Iterable[Arrangement]) -> frozenset[str]:
    """Return the sizes of tiles on which no number of tiles depends: each cuts one element, of which there is one tile.

    A dimension that was squeezed has been counted, too.
    """
    counted: frozenset[str] = frozenset()
    for arrangement in arrangements:
        squeezes = (step for step in arrangement.steps if step.operation == "squeeze")
        squeezed = (step.shape[dim] for step in squeezes for dim in step.arguments[0])
        sizes = itertools.chain(squeezed, *arrangement.levels[:-1])
        counted = counted.union(*(as_expr(size).variables for size in sizes))
    return frozenset[str]().union(*(size.variables for tile in tiles for size in tile.shape)) - counted


def _elements(size: Expr, blocks: frozenset[str]) -> Expr:
    """Count the elements that a block size cuts: the tiles there would be if each had one element.

    Where a formula divides by a part of a block, which would be 0, the number of tiles stands for it.
    """
    try:
        return size.subs(dict.fromkeys(blocks, 1))
    except ZeroDivisionError:
        return size


def _divisors(size: Expr) -> frozenset[str]:
    """Return the names by which a formula divides."""
    found: frozenset[str] = frozenset()
    for atom in size.atoms:
        match atom:
            case FloorDiv(numerator, denominator):
                found |= denominator.variables | _divisors(numerator)
            case Min(operands) | Max(operands):
                found = found.union(*map(_divisors, operands))
    return found


def _classified(pattern: Pattern, blocks: frozenset[str]) -> Pattern:
    """Return a pattern as a product or an attention, if it is one."""
    matrices = [_Matrix.of(tile, blocks) for tile in pattern.tiles if _is_matrix(tile)]
    single = [each for each in matrices if each.stacked == 1]
    return _product(pattern, matrices) or _attention(pattern, single) or pattern


def _is_matrix(tile: LoadedTile) -> bool:
    """Tell whether a tile has two dimensions, or is a stack of such, as many as a number says."""
    return len(tile.shape) == 2 or (len(tile.shape) == 3 and tile.shape[0].is_constant)


@dataclass(frozen=True)
class _Matrix:
    """A tile of two dimensions: for each, the block size that it is, or None; and how many of them are stacked."""

    tile: LoadedTile
    rows: str | None
    columns: str | None
    stacked: int

    @classmethod
    def of(cls, tile: LoadedTile, blocks: frozenset[str]) -> _Matrix:
        *stacked, rows, columns = tile.shape
        count = stacked[0].constant if stacked else 1
        return cls(tile, _block_size(rows, blocks), _block_size(columns, blocks), count)

    def sides(self, is_transposed: bool) -> tuple[str | None, str | None]:
        """Return the block sizes of rows and columns, or of those of the transposed tile."""
        return (self.columns, self.rows) if is_transposed else (self.rows, self.columns)


def _block_size(size: Expr, blocks: frozenset[str]) -> str | None:
    return next((name for name in size.variables & blocks if size == as_expr(name)), None)


def _product(pattern: Pattern, matrices: list[_Matrix]) -> ProductPattern | None:
    """Find tiles (rows, depth) and (depth, columns) of which a loop cuts the depth alone.

    Operands may be stored transposed, as gradients have them; the tile that is (rows, columns) then tells which.
    """
    own = pattern.tiles, pattern.grid, pattern.extents, pattern.loops
    results = {(each.rows, each.columns) for each in matrices}
    orders = (False, False), (False, True), (True, False)
    for (is_left, is_right), lhs, rhs in itertools.product(orders, matrices, matrices):
        (rows, depth), (inner, columns) = lhs.sides(is_left), rhs.sides(is_right)
        if rows is None or depth is None or columns is None or inner != depth:
            continue
        if (is_left or is_right) and (rows, columns) not in results:
            continue
        if depth in pattern.loops and rows not in pattern.loops and columns not in pattern.loops:
            operands = lhs.tile.parameter, rhs.tile.parameter
            return ProductPattern(*own, rows, columns, depth, *operands, rhs.stacked) if lhs.stacked == 1 else None
    return None


def _attention(pattern: Pattern, matrices: list[_Matrix]) -> AttentionPattern | None:
    """Find tiles (rows, width) and (keys, width) of which a loop cuts the keys alone, and nothing the width."""
    own = pattern.tiles, pattern.grid, pattern.extents, pattern.loops
    for query, key in itertools.product(matrices, matrices):
        rows, keys = query.rows, key.rows
        if rows is None or keys is None or query.columns is not None or key.columns is not None:
            continue
        if keys in pattern.loops and rows not in pattern.loops:
            row_tiles = sum(
                each.rows == rows and each.columns is None and each.tile.shape[1] != const(1) for each in matrices
            )
            row_vectors = sum(each.rows == rows and each.tile.shape[1] == const(1) for each in matrices)
            return AttentionPattern(*own, rows, keys, query.tile.shape[1], query.tile.parameter, row_tiles, row_vectors)
    return None

"""The pattern of a kernel: which block sizes cut the grid, which a loop, and what its products multiply.

A block size in a formula of the outermost level cuts the grid; one in a formula of a level below cuts a loop. Products
are read off a sketch of the program.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.arrangement.sizes import plain_name
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.value import Arrangement
from ninetoothed.definition import KernelDefinition
from ninetoothed.expr import Expr, FloorDiv, Max, Min, as_expr, const
from ninetoothed.frontend.values import origin
from ninetoothed.passes.operations import is_fold, producers
from ninetoothed.passes.products import Feed, Product, products
from ninetoothed.runtime.sketches import sketch_of
from ninetoothed.specialisation import Specialisation


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
    multiplies: whether matrices are multiplied. is_scattered: whether a tile is read of which no two neighbours are
    known to lie side by side.
    """

    tiles: tuple[LoadedTile, ...]
    grid: tuple[Expr, ...]
    extents: Mapping[str, Expr]
    loops: Mapping[str, Expr]
    multiplies: bool
    is_scattered: bool = False


@dataclass(frozen=True, kw_only=True)
class ProductPattern(Pattern):
    """A matrix product of tiles (rows, depth) and (depth, columns), named by block sizes; a loop cuts the depth.

    lhs, rhs: the positions of the operands among the parameters. stacked: how many matrices a tile of `rhs` has, whose
    columns lie side by side in the product. gathered: the operands whose rows or columns lie apart in memory.
    has_windows: whether those of an operand overlap in memory.
    """

    rows: str
    columns: str
    depth: str
    lhs: int
    rhs: int
    stacked: int
    gathered: frozenset[int]
    has_windows: bool

    @property
    def operands(self) -> tuple[int, int]:
        """The positions of both operands."""
        return self.lhs, self.rhs


@dataclass(frozen=True, kw_only=True)
class AttentionPattern(Pattern):
    """Tiles (rows, width) against a loop over tiles (keys, width): products of which others take the results.

    rows, keys: names of block sizes. query: the position of the parameter whose rows these are. scores: how many
    products have tiles of (rows, keys): more than one for gradients. accumulators: how many tiles (rows, width) are
    accumulated. has_row_vectors: whether a parameter has a number for each row. is_masked: whether scores are chosen
    by a condition. has_diagonal: whether such a condition is of its row and its column, as a causal one. loads_scores:
    whether there is a number in memory for each of them, as in a mask. folds_scores: whether rounds of a loop fold what
    they compute, as a softmax that runs along does.
    """

    rows: str
    keys: str
    width: Expr
    query: int
    scores: int
    accumulators: int
    has_row_vectors: bool
    is_masked: bool
    has_diagonal: bool
    loads_scores: bool
    folds_scores: bool

    @property
    def is_gradient(self) -> bool:
        """Tell whether scores and their gradients are computed."""
        return self.scores > 1


def pattern_of(definition: KernelDefinition, specialisation: Specialisation) -> Pattern:
    """Return the pattern of a kernel in a class of calls."""
    work, program = work_of(definition), sketch_of(definition, specialisation)
    return work if program is None else _classified(work, definition, program, specialisation)


@functools.lru_cache(maxsize=8)
def work_of(definition: KernelDefinition) -> Pattern:
    """Return what the arrangement of a kernel tells of its work."""
    used = [(i, p) for i, p in enumerate(definition.given) if p.touched and p.source.ndim and not p.source.constexpr]
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
    return Pattern(tiles, grid, extents, loops, multiplies=False)


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


def _classified(
    work: Pattern, definition: KernelDefinition, program: ir.Program, specialisation: Specialisation
) -> Pattern:
    """Return the work of a program as a product or an attention, if it is one."""
    found = products(program)
    loads = tuple(each for each in ir.walk(program.body) if isinstance(each, ir.Load))
    strides = {each.name: each.source.strides for each in definition.parameters}
    dense = {name for name, stride in specialisation.numbers.items() if stride in (0, 1)}
    is_scattered = any(_is_scattered(load.access, strides[load.access.parameter], dense) for load in loads)
    work = replace(work, multiplies=bool(found), is_scattered=is_scattered)
    reader = _Reader(work, definition, found, loads, producers(program.body))
    patterns = itertools.chain(map(reader.product, found), map(reader.attention, found))
    return next(filter(None, patterns), reader.work)


@dataclass(frozen=True)
class _Reader:
    """Reads patterns off the products of a kernel, in terms of its block sizes."""

    work: Pattern
    definition: KernelDefinition
    products: tuple[Product, ...]
    loads: tuple[ir.Load, ...]
    defined_by: Mapping[ir.Value, ir.Operation]

    def product(self, found: Product) -> ProductPattern | None:
        """Return a product of two tiles of which a loop cuts the depth alone; None for any other."""
        lhs, rhs = map(_loaded, found.sides)
        if lhs is None or rhs is None:
            return None
        stacked = [size.constant for size in _sizes(rhs, -1) if size.is_constant]
        rows, depth = self.block(_sizes(lhs, -2)), self.block(_sizes(lhs, -1))
        inner, columns = self.block(_sizes(rhs, -2)), self.block(_sizes(rhs, -1)[len(stacked) :])
        if rows is None or depth is None or columns is None or inner != depth:
            return None
        if depth not in self.work.loops or {rows, columns} & self.work.loops.keys():
            return None
        places = {self.position(feed): feed.access for feed in (lhs, rhs)}
        return ProductPattern(
            **vars(self.work),
            rows=rows,
            columns=columns,
            depth=depth,
            lhs=self.position(lhs),
            rhs=self.position(rhs),
            stacked=math.prod(stacked),
            gathered=frozenset(position for position, access in places.items() if _is_gathered(access)),
            has_windows=any(map(_has_windows, places.values())),
        )

    def attention(self, found: Product) -> AttentionPattern | None:
        """Return a product of weights that are made of scores, the products of queries and keys; None for others."""
        inside = [each for each in self.products if each.loops[-1:] == found.loops[-1:]]
        sums = [each for each in inside if any(map(each.takes, inside))]
        scores = [each for each in inside if any(other.takes(each) for other in sums)] if found in sums else []
        query, key = map(_loaded, scores[0].sides) if scores else (None, None)
        if query is None or key is None:
            return None
        rows, keys, width = self.block(_sizes(query, -2)), self.block(_sizes(key, -1)), _sizes(query, -1)
        if rows is None or keys is None or self.block(width) is not None:
            return None
        if keys not in self.work.loops or rows in self.work.loops:
            return None
        return AttentionPattern(
            **vars(self.work),
            rows=rows,
            keys=keys,
            width=math.prod(width, start=const(1)),
            query=self.position(query),
            scores=len(scores),
            accumulators=len(sums),
            has_row_vectors=any(tile.shape == (as_expr(rows), const(1)) for tile in self.work.tiles),
            is_masked=any(map(_conditions, self.products)),
            has_diagonal=any(len(self._lanes(each)) > 1 for product in self.products for each in _conditions(product)),
            loads_scores=any(self._cuts(load) == {rows, keys} for load in self.loads),
            folds_scores=any(map(_folds, found.loops[-1:])),
        )

    def _lanes(self, condition: ir.Value) -> set[Expr]:
        """Return the numbers of lanes, such as those of rows and of columns, of which a condition is made."""
        found, read, left = set[Expr](), set[ir.Value](), [condition]
        while left:
            operation = self.defined_by.get(left.pop())
            if isinstance(operation, ir.Index) and operation.lanes:
                found.add(operation.expr)
            elif isinstance(operation, ir.Apply):
                left += [value for value in operation.operands if value not in read]
                read.update(operation.operands)
        return found

    def _cuts(self, load: ir.Load) -> set[str | None]:
        """Return the block sizes that a loaded tile has."""
        return {self.block([origin(size)]) for size in load.access.type.shape}

    def position(self, feed: Feed) -> int:
        """Return the position of the parameter that is loaded."""
        names = [parameter.name for parameter in self.definition.parameters]
        return names.index(feed.access.parameter)

    def block(self, sizes: list[Expr]) -> str | None:
        """Return the block size that the only one of some sizes is; None where there is no such."""
        names = self.definition.symbols if len(sizes) == 1 else ()
        return next((name for name in names if sizes[0] == as_expr(self.definition.symbols[name])), None)


def _sizes(feed: Feed, axis: int) -> list[Expr]:
    """Return the sizes of a load that lie along an axis of what it feeds, over the names of block sizes; no ones."""
    sizes = (origin(feed.access.type.shape[own]) for own in sorted(feed.axes[axis]))
    return [size for size in sizes if size != 1]


def _loaded(side: tuple[Feed, ...]) -> Feed | None:
    """Return the load that feeds all of a side; None where a product feeds it, too."""
    is_computed = any(feed.load is None for feed in side)
    return None if is_computed else next((feed for feed in side if all(feed.axes)), None)


def _conditions(product: Product) -> list[ir.Value]:
    """Return the conditions that choose what a product takes of another. An added mask costs but its load."""
    taken = (feed for side in product.sides for feed in side if feed.load is None)
    return [step.operands[0] for feed in taken for step in feed.path if step.function == "where"]


def _folds(loop: ir.Loop) -> bool:
    """Tell whether a round of a loop reduces or scans what it computes."""
    return any(isinstance(operation, ir.Apply) and is_fold(operation) for operation in ir.walk(loop.body))


def _is_gathered(access: ir.Access) -> bool:
    """Tell whether rows or columns of a tile lie apart in memory: an index is no multiple of a lane."""
    names = [lane.name for lane in access.lanes]
    return any(index.linear(names) is None for index in access.indices)


def _is_scattered(access: ir.Access, strides: Sequence[int | Symbol], dense: Collection[str]) -> bool:
    """Tell whether no two neighbours of a tile are known to lie side by side in memory.

    strides: those of its dimensions. dense: the names of strides that are 1, or 0.
    """
    rows = [index for index, stride in zip(access.indices, strides, strict=True) if plain_name(stride) in dense]
    linears = (index.linear([lane.name]) for index in rows for lane in access.lanes)
    return bool(access.type.shape) and not any(linear is not None and 1 in linear[0].values() for linear in linears)


def _has_windows(access: ir.Access) -> bool:
    """Tell whether rows of a tile overlap in memory: lanes of both axes move one index."""
    names = {lane.name for lane in access.lanes}
    return any(len(index.variables & names) > 1 for index in access.indices)

"""Rewrite matrix products, which leave out overhang along their depth, and atomics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninetoothed import dtypes, ir
from ninetoothed.expr import Facts
from ninetoothed.ir import TileType, Value
from ninetoothed.passes.overhang import edges as edges_
from ninetoothed.passes.overhang.conditions import is_implied
from ninetoothed.passes.overhang.edges import BoundEdge, MaskEdge, OverhangEdge, rounding, with_lanes
from ninetoothed.passes.overhang.tiles import TrackedTile, distinct

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter


def dot(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Put 0 into both sides past an edge along the depth: 0 times NaN or infinity would be NaN."""
    a, b, *accumulator = operation.operands
    left, right = rewriter.tile(a), rewriter.tile(b)
    rank = len(a.type.lanes)
    depths = rank - 1, rank - 2
    for tile, depth in zip((left, right), depths, strict=True):
        rewriter.settle(tile.clashes, frozenset((depth,)), operation.location)
    ends = [
        {edge: _across(rewriter, edge, depth, other) for edge in tile.ends(rewriter.facts) if depth in edge.axes}
        for tile, depth, other in ((left, depths[0], b.type), (right, depths[1], a.type))
    ]
    _agree(rewriter, ends, operation.location)
    sides = []
    for raw, tile, own, theirs in ((a, left, ends[0], ends[1]), (b, right, ends[1], ends[0])):
        met = [*own, *(edge for edge in theirs.values() if edge is not None and edge not in own)]
        sides.append(rewriter.filled(raw, tile, 0, met))
    rest = [rewriter.tile(raw) for raw in accumulator]
    rewriter.emit(operation, tuple(tile.value for tile in (*sides, *rest)))
    parts = [*rest, *(_of_side(rewriter, operation.result, *each) for each in zip((left, right), depths, strict=True))]
    edges = distinct(edge for part in parts for edge in part.edges)
    clashes = tuple(pair for part in parts for pair in part.clashes)
    rewriter.set(operation.result, TrackedTile(operation.result, edges, clashes=clashes))


def _of_side(rewriter: OverhangRewriter, result: Value, tile: TrackedTile, depth: int) -> TrackedTile:
    """Return the product with the edges that it has by one side: those along the depth are left out."""
    moved = {edge: _outside(edge, depth, tile, result.type, rewriter.facts) for edge in tile.edges}
    pairs = [(moved.get(x), moved.get(y)) for x, y in tile.clashes]
    clashes = tuple((x, y) for x, y in pairs if x is not None and y is not None)
    return TrackedTile(result, tuple(edge for edge in moved.values() if edge is not None), clashes=clashes)


def _agree(
    rewriter: OverhangRewriter, ends: list[dict[OverhangEdge, OverhangEdge | None]], location: ir.SourceLocation | None
) -> None:
    """Check that the two sides end at the same place."""
    left, right = ([e for e in own if isinstance(e, BoundEdge) and e.parameter and not e.uniform] for own in ends)
    for a in left:
        for b in right:
            other = ends[1][b]
            if other is not None and other not in ends[0] and ends[0][a] not in ends[1]:
                rewriter.settle_one(a, other, location)


def _across(rewriter: OverhangRewriter, edge: OverhangEdge, depth: int, type: TileType) -> OverhangEdge | None:
    """Move an edge along the depth of one side to the other; None where it depends on other axes, too."""
    if edge.axes != {depth}:
        return None
    rank = len(type.lanes)
    other = rank - 1 if depth == rank - 2 else rank - 2
    if isinstance(edge, BoundEdge):
        axes, facts = {depth: edges_.lane(type, other)}, with_lanes(rewriter.facts, type)
        return edges_.moved(edge, axes, type, facts, {depth: other})
    dims = (*range(rank - 2), rank - 1, rank - 2)
    source = edge.value.type
    target = TileType(dtypes.int1, tuple(source.shape[d] for d in dims), tuple(source.lanes[d] for d in dims))
    return MaskEdge(rewriter.builder.apply("permute", (edge.value,), target, dims=dims))


def _outside(edge: OverhangEdge, depth: int, tile: TrackedTile, type: TileType, facts: Facts) -> OverhangEdge | None:
    """Return a side's edge as one of the product; None for one along the depth."""
    if depth in edge.axes:
        return None
    if isinstance(edge, MaskEdge):
        return edge
    lanes = enumerate(tile.value.type.lanes)
    axes = {axis: edges_.lane(type, axis) for axis, count in lanes if type.lanes[axis] == count}
    return edges_.moved(edge, axes, type, with_lanes(facts, type))


# -- effects ---------------------------------------------------------------------------------------


def check(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Rewrite an assertion: overhang holds true."""
    (raw,) = operation.operands
    tile = rewriter.tile(raw)
    tile = rewriter.filled(raw, tile, True, tile.ends(rewriter.facts))
    rewriter.emit(operation, (tile.value,))


def atomic(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Overhang writes nothing; the mask that the frontend made tells the lanes that round the tile up."""
    pointer, value, *masks = operation.operands
    ends = [
        edge
        for edge in distinct(edge for raw in operation.operands for edge in rewriter.tile(raw).edges)
        if edge.fails and edge not in rounding(pointer.type, rewriter.facts)
        and not any(is_implied(rewriter, mask, edge) for mask in masks)
    ]  # fmt: skip
    operands: tuple[Value, ...] = tuple(map(rewriter.value, operation.operands))
    mask = rewriter.builder.mask(ends, pointer.type)
    if mask is not None:
        mask = rewriter.builder.stretched(mask, pointer.type)
        if masks:
            mask = rewriter.builder.apply("and", (operands[2], mask), mask.type)
        operands = (*operands[:2], mask)
    rewriter.emit(operation, operands)
    for result in operation.results:
        rewriter.set(
            result,
            TrackedTile(result, distinct(edge for raw in operation.operands for edge in rewriter.tile(raw).edges)),
        )

"""Rewrite matrix products, which leave out overhang along their depth, and atomics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninetoothed import ir
from ninetoothed.ir import TileType, Value
from ninetoothed.ir.lanes import lane, with_lanes
from ninetoothed.passes.overhang import edges as edges_
from ninetoothed.passes.overhang.carried import carried
from ninetoothed.passes.overhang.conditions import is_implied
from ninetoothed.passes.overhang.edges import BoundEdge, MaskEdge, OverhangEdge, rounding
from ninetoothed.passes.overhang.tiles import TrackedTile, distinct

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter


def dot(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Put 0 into both sides past an edge along the depth: 0 times NaN or infinity would be NaN."""
    a, b, *accumulator = operation.operands
    left, right = rewriter.tile(a), rewriter.tile(b)
    (depth,), (other,) = map(operation.axes.worked, (0, 1))
    sides = (a, left, depth), (b, right, other)
    for _, tile, axis in sides:
        rewriter.check_clashes(tile.clashes, frozenset((axis,)), operation.location)
    ends = [
        {edge: _across(rewriter, edge, axis, *to) for edge in tile.ends(rewriter.facts) if axis in edge.axes}
        for (_, tile, axis), to in zip(sides, ((b.type, other), (a.type, depth)), strict=True)
    ]
    _agree(rewriter, ends, operation.location)
    values = []
    for (raw, _, _), own, theirs in zip(sides, ends, ends[::-1], strict=True):
        met = [*own, *(edge for edge in theirs.values() if edge is not None and edge not in own)]
        values.append(rewriter.filled(raw, 0, met).value)
    rest = [rewriter.tile(raw) for raw in accumulator]
    rewriter.emit(operation, (*values, *(tile.value for tile in rest)))
    for place, (_, tile, axis) in enumerate(sides):
        met = [edge for edge in tile.edges if axis in edge.axes]
        rest.append(carried(rewriter, operation, tile, place, met=met))
    edges = distinct(edge for part in rest for edge in part.edges)
    clashes = tuple(pair for part in rest for pair in part.clashes)
    rewriter.set(operation.result, TrackedTile(operation.result, edges, clashes=clashes))


def _agree(
    rewriter: OverhangRewriter, ends: list[dict[OverhangEdge, OverhangEdge | None]], location: ir.SourceLocation | None
) -> None:
    """Check that the two sides end at the same place."""
    left, right = ([e for e in own if isinstance(e, BoundEdge) and e.parameter and not e.uniform] for own in ends)
    for a in left:
        for b in right:
            other = ends[1][b]
            if other is not None and other not in ends[0] and ends[0][a] not in ends[1]:
                rewriter.check_clash(a, other, location)


def _across(
    rewriter: OverhangRewriter, edge: OverhangEdge, depth: int, type: TileType, other: int
) -> OverhangEdge | None:
    """Move an edge along the depth of one side to the `other` axis of a type; None if it depends on more axes."""
    if edge.axes != {depth}:
        return None
    if isinstance(edge, BoundEdge):
        axes, facts = {depth: lane(type, other)}, with_lanes(rewriter.facts, type.axes)
        return edges_.moved(edge, axes, type, facts, {depth: other})
    dims = tuple({depth: other, other: depth}.get(axis, axis) for axis in range(len(type.lanes)))
    return MaskEdge(rewriter.builder.apply("permute", (edge.value,), dims=dims))


# -- effects ---------------------------------------------------------------------------------------


def check(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Rewrite an assertion: overhang holds true."""
    (raw,) = operation.operands
    tile = rewriter.tile(raw)
    tile = rewriter.filled(raw, True, tile.ends(rewriter.facts))
    rewriter.emit(operation, (tile.value,))


def atomic(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Mask overhang of an atomic. Lanes that only round the tile up are in the frontend's mask already."""
    pointer, value, *masks = operation.operands
    edges = distinct(edge for raw in operation.operands for edge in rewriter.tile(raw).edges)
    ends = [
        edge
        for edge in edges
        if edge.fails and edge not in rounding(pointer.type, rewriter.facts)
        and not any(is_implied(rewriter, mask, edge) for mask in masks)
    ]  # fmt: skip
    operands: tuple[Value, ...] = tuple(map(rewriter.value, operation.operands))
    mask = rewriter.builder.mask(ends, pointer.type)
    if mask is not None:
        mask = rewriter.builder.stretched(mask, pointer.type)
        if masks:
            mask = rewriter.builder.apply("and", (operands[2], mask))
        operands = (*operands[:2], mask)
    rewriter.emit(operation, operands)
    for result in operation.results:
        rewriter.set(result, TrackedTile(result, edges))

"""Carry edges, and the numbers known past them, from operands to results: along axes of the same name."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from ninetoothed import dtypes, ir
from ninetoothed.expr import const
from ninetoothed.ir import TileType
from ninetoothed.ir.lanes import Told, forwards, with_lanes
from ninetoothed.passes.overhang import contents, edges as edges_
from ninetoothed.passes.overhang.edges import BoundEdge, MaskEdge, OverhangEdge
from ninetoothed.passes.overhang.tiles import TrackedTile

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter


def moved(
    rewriter: OverhangRewriter,
    edge: OverhangEdge,
    operation: ir.Apply,
    operand: int = 0,
    result: int = 0,
    told: Told | None = None,
) -> OverhangEdge | None:
    """Move an edge of an operand to a result; None along an axis that the result has not.

    told: the lanes of further axes of the operand.
    """
    type, shared = operation.results[result].type, operation.axes.shared(operand, result)
    if isinstance(edge, BoundEdge):
        axes = forwards(operation, operand, result) | (told or {})
        return edges_.moved(edge, axes, type, with_lanes(rewriter.facts, type.axes), shared)
    if operation.primitive.moves_lanes:
        mask = rewriter.builder.stretched(edge.value, operation.operands[operand].type)
        target = type.with_dtype(dtypes.int1)
        return MaskEdge(rewriter.builder.reshaped(operation.function, mask, target, operation.attributes))
    own, origins = edge.value.type, {other: axis for axis, other in shared.items()}
    places = [origins.get(axis) for axis in range(len(type.lanes))]
    lanes = tuple(1 if place is None else own.lanes[place] for place in places)
    if lanes == own.lanes:
        return edge
    shape = tuple(const(1) if place is None else own.shape[place] for place in places)
    return MaskEdge(rewriter.builder.reshaped("reshape", edge.value, TileType(dtypes.int1, shape, lanes)))


def carried(
    rewriter: OverhangRewriter,
    operation: ir.Apply,
    tile: TrackedTile,
    operand: int = 0,
    result: int = 0,
    met: Container[OverhangEdge] = (),
    told: Told | None = None,
) -> TrackedTile:
    """Make a result with the edges of an operand, less those that are `met` where lanes are combined."""
    ends = dict.fromkeys((*tile.edges, *tile.ends(rewriter.facts)))
    carried = {edge: moved(rewriter, edge, operation, operand, result, told) for edge in ends if edge not in met}
    found = {edge: new for edge, new in carried.items() if new is not None}
    known = {new: n for edge, new in found.items() if contents.keeps(operation, n := tile.held(edge))}
    own = tuple(new for edge, new in found.items() if edge in tile.edges)
    pairs = tuple((found[a], found[b]) for a, b in tile.clashes if a in found and b in found)
    return TrackedTile(operation.results[result], own, known, clashes=pairs)

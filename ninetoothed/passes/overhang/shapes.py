"""Rewrite operations that move lanes: their edges move along."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ninetoothed import ir
from ninetoothed.dtypes import int1
from ninetoothed.expr import const
from ninetoothed.ir import TileType, Value
from ninetoothed.language.primitive import Number
from ninetoothed.passes.overhang import edges as edges_
from ninetoothed.passes.overhang.edges import BoundEdge, MaskEdge, OverhangEdge, mask_type, with_lanes
from ninetoothed.passes.overhang.tiles import TrackedTile

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter


def move(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    tile = rewriter.tile(operation.operands[0])
    rewriter.emit(operation, (tile.value,))
    found = {edge: rewriter.moved(edge, operation) for edge in tile.edges}
    ends = {edge: found.get(edge) or rewriter.moved(edge, operation) for edge in tile.ends(rewriter.facts)}
    known = {new: tile.held(edge) for edge, new in ends.items() if new is not None and tile.held(edge) is not None}
    left = {edge: new for edge, new in found.items() if new is not None}
    pairs = tuple((left[a], left[b]) for a, b in tile.clashes if a in left and b in left)
    result = operation.result
    rewriter.set(result, TrackedTile(result, tuple(left.values()), known, tile.number, pairs))


def _full_mask(rewriter: OverhangRewriter, raw: Value) -> Value:
    """Return the mask of a value's elements, without any lane left open."""
    type = raw.type
    mask = rewriter.builder.mask(rewriter.tile(raw).edges, type)
    return rewriter.builder.number(True, mask_type(type)) if mask is None else rewriter.builder.stretched(mask, type)


def _two(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Rewrite `join` and `cat`."""
    tiles = [rewriter.tile(raw) for raw in operation.operands]
    rewriter.emit(operation, tuple(tile.value for tile in tiles))
    result = operation.result
    own: tuple[OverhangEdge, ...] = ()
    if operation.function == "join" and set(tiles[0].edges) == set(tiles[1].edges):
        own = tuple(_same(rewriter, edge, result.type) for edge in tiles[0].edges)
    elif any(edge.fails for tile in tiles for edge in tile.edges):
        masks = tuple(_full_mask(rewriter, raw) for raw in operation.operands)
        own = (MaskEdge(rewriter.builder.apply(operation.function, masks, mask_type(result.type))),)
    rewriter.set(result, TrackedTile(result, own))


def _same(rewriter: OverhangRewriter, edge: OverhangEdge, type: TileType) -> OverhangEdge:
    """Move an edge of a tile to one that has one axis more, the last."""
    if isinstance(edge, BoundEdge):
        return edge
    lanes = (*edge.value.type.lanes, 1)
    shape = (*edge.value.type.shape, const(1))
    return MaskEdge(
        rewriter.builder.apply("expand_dims", (edge.value,), TileType(int1, shape, lanes), axis=len(lanes) - 1)
    )


def _split(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Rewrite a split: each half has the edges of the operand at its own place."""
    tile = rewriter.tile(operation.operands[0])
    rewriter.emit(operation, (tile.value,))
    source = operation.operands[0].type
    last = len(source.lanes) - 1
    for half, result in enumerate(operation.results):
        axes = {axis: edges_.lane(result.type, axis) for axis in range(last)} | {last: const(half)}
        facts = with_lanes(rewriter.facts, result.type)
        bounds = [edge for edge in tile.ends(rewriter.facts) if isinstance(edge, BoundEdge)]
        places = {axis: axis for axis in range(last)}
        moved = {edge: edges_.moved(edge, axes, result.type, facts, places) for edge in bounds}
        found = {edge: new for edge, new in moved.items() if new is not None}
        known: dict[OverhangEdge, Number | None] = {
            new: tile.held(edge) for edge, new in found.items() if tile.held(edge) is not None
        }
        rewriter.set(
            result, TrackedTile(result, tuple(new for edge, new in found.items() if edge in tile.edges), known)
        )
    masks = tuple(edge for edge in tile.edges if isinstance(edge, MaskEdge))
    if masks:
        mask = rewriter.builder.stretched(rewriter.builder.mask_of_some(masks, source), source)
        types = [mask_type(result.type) for result in operation.results]
        halves = tuple(Value(type) for type in types)
        rewriter.builder.emit(ir.Apply(halves, "split", (mask,), location=operation.location))
        for own, result in zip(halves, operation.results, strict=True):
            part = rewriter.tile(result)
            rewriter.set(result, replace(part, edges=(*part.edges, MaskEdge(own))))


def _gather(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Gather from a tile: past an edge the program reads 0, which counts."""
    raw, index = operation.operands
    source = rewriter.tile(raw)
    ends = [edge for edge in source.edges if edge.fails]
    source = rewriter.filled(raw, source, 0, ends)
    rewriter.emit(operation, (source.value, rewriter.value(index)))
    rewriter.set(operation.result, TrackedTile(operation.result, rewriter.tile(index).edges))


# Those of several operands or results, each by itself.
SHUFFLES = {"join": _two, "cat": _two, "split": _split, "gather": _gather}

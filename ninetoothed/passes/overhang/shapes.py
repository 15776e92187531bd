"""Operations that move lanes as a whole: edges move along."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ninetoothed import ir
from ninetoothed.dtypes import int1
from ninetoothed.expr import const
from ninetoothed.ir import TileType, Value
from ninetoothed.language.primitive import Number
from ninetoothed.passes.overhang import edges as edges_
from ninetoothed.passes.overhang.edges import Bound, Edge, Mask, mask_type, with_lanes
from ninetoothed.passes.overhang.tiles import Tile

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import Rewriter


def move(work: Rewriter, operation: ir.Apply) -> None:
    tile = work.tile(operation.operands[0])
    work.emit(operation, (tile.value,))
    found = {edge: work.moved(edge, operation) for edge in tile.edges}
    ends = {edge: found.get(edge) or work.moved(edge, operation) for edge in tile.ends(work.facts)}
    known = {new: tile.held(edge) for edge, new in ends.items() if new is not None and tile.held(edge) is not None}
    left = {edge: new for edge, new in found.items() if new is not None}
    pairs = tuple((left[a], left[b]) for a, b in tile.clashes if a in left and b in left)
    result = operation.result
    work.set(result, Tile(result, tuple(left.values()), known, tile.number, pairs))


def _full_mask(work: Rewriter, raw: Value) -> Value:
    """The lanes of a value that are elements, all of them told."""
    type = raw.type
    mask = work.emission.mask(work.tile(raw).edges, type)
    return work.emission.number(True, mask_type(type)) if mask is None else work.emission.stretched(mask, type)


def _two(work: Rewriter, operation: ir.Apply) -> None:
    """`join` and `cat`."""
    tiles = [work.tile(raw) for raw in operation.operands]
    work.emit(operation, tuple(tile.value for tile in tiles))
    result = operation.result
    own: tuple[Edge, ...] = ()
    if operation.function == "join" and set(tiles[0].edges) == set(tiles[1].edges):
        own = tuple(_same(work, edge, result.type) for edge in tiles[0].edges)
    elif any(edge.fails for tile in tiles for edge in tile.edges):
        masks = tuple(_full_mask(work, raw) for raw in operation.operands)
        own = (Mask(work.emission.apply(operation.function, masks, mask_type(result.type))),)
    work.set(result, Tile(result, own))


def _same(work: Rewriter, edge: Edge, type: TileType) -> Edge:
    """An edge of a tile in one that has one axis more, the last."""
    if isinstance(edge, Bound):
        return edge
    lanes = (*edge.value.type.lanes, 1)
    shape = (*edge.value.type.shape, const(1))
    return Mask(work.emission.apply("expand_dims", (edge.value,), TileType(int1, shape, lanes), axis=len(lanes) - 1))


def _split(work: Rewriter, operation: ir.Apply) -> None:
    tile = work.tile(operation.operands[0])
    work.emit(operation, (tile.value,))
    source = operation.operands[0].type
    last = len(source.lanes) - 1
    for half, result in enumerate(operation.results):
        axes = {axis: edges_.lane(result.type, axis) for axis in range(last)} | {last: const(half)}
        facts = with_lanes(work.facts, result.type)
        bounds = [edge for edge in tile.ends(work.facts) if isinstance(edge, Bound)]
        moved = {edge: edges_.moved(edge, axes, result.type, facts) for edge in bounds}
        found = {edge: new for edge, new in moved.items() if new is not None}
        known: dict[Edge, Number | None] = {
            new: tile.held(edge) for edge, new in found.items() if tile.held(edge) is not None
        }
        work.set(result, Tile(result, tuple(new for edge, new in found.items() if edge in tile.edges), known))
    masks = tuple(edge for edge in tile.edges if isinstance(edge, Mask))
    if masks:
        mask = work.emission.stretched(work.emission.mask_of_some(masks, source), source)
        types = [mask_type(result.type) for result in operation.results]
        halves = tuple(Value(type) for type in types)
        work.emission.emit(ir.Apply(halves, "split", (mask,), location=operation.location))
        for own, result in zip(halves, operation.results, strict=True):
            part = work.tile(result)
            work.set(result, replace(part, edges=(*part.edges, Mask(own))))


def _gather(work: Rewriter, operation: ir.Apply) -> None:
    """Gather from a tile: past an edge the program reads 0, which counts."""
    raw, index = operation.operands
    source = work.tile(raw)
    ends = [edge for edge in source.edges if edge.fails]
    source = work.filled(raw, source, 0, ends)
    work.emit(operation, (source.value, work.value(index)))
    work.set(operation.result, Tile(operation.result, work.tile(index).edges))


# Those of several operands or results, each by itself.
SHUFFLES = {"join": _two, "cat": _two, "split": _split, "gather": _gather}

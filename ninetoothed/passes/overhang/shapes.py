"""Rewrite operations that move lanes: their edges move along."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ninetoothed import ir
from ninetoothed.dtypes import int1
from ninetoothed.expr import const
from ninetoothed.ir import Value
from ninetoothed.passes.overhang.carried import carried
from ninetoothed.passes.overhang.edges import MaskEdge, OverhangEdge
from ninetoothed.passes.overhang.tiles import TrackedTile

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter


def move(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Rewrite an operation that only moves the lanes of one tile."""
    tile = rewriter.tile(operation.operands[0])
    rewriter.emit(operation, (tile.value,))
    rewriter.set(operation.result, carried(rewriter, operation, tile))


def _two(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Rewrite `join` and `cat`."""
    tiles = [rewriter.tile(raw) for raw in operation.operands]
    rewriter.emit(operation, tuple(tile.value for tile in tiles))
    result = operation.result
    own: tuple[OverhangEdge, ...] = ()
    if operation.axes.kept() and set(tiles[0].edges) == set(tiles[1].edges):
        own = carried(rewriter, operation, tiles[0]).edges
    elif any(edge.fails for tile in tiles for edge in tile.edges):
        masks = tuple(map(rewriter.mask, tiles))
        own = (MaskEdge(rewriter.builder.apply(operation.function, masks)),)
    rewriter.set(result, TrackedTile(result, own))


def _split(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Rewrite a split: each half has the edges of the operand at its own place."""
    (raw,), (last,) = operation.operands, operation.axes.worked()
    tile = rewriter.tile(raw)
    rewriter.emit(operation, (tile.value,))
    masks = tuple(edge for edge in tile.edges if isinstance(edge, MaskEdge))
    bounds = replace(tile, edges=tuple(edge for edge in tile.edges if edge not in masks), clashes=())
    for half, result in enumerate(operation.results):
        told = {last: const(half)}
        rewriter.set(result, carried(rewriter, operation, bounds, result=half, told=told))
    if masks:
        mask = rewriter.builder.whole_mask(masks, raw.type)
        halves = tuple(Value(result.type.with_dtype(int1)) for result in operation.results)
        rewriter.builder.emit(ir.Apply(halves, "split", (mask,), location=operation.location))
        for own, result in zip(halves, operation.results, strict=True):
            part = rewriter.tile(result)
            rewriter.set(result, replace(part, edges=(*part.edges, MaskEdge(own))))


def _gather(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Rewrite a gather: what is read past an edge of the tile is 0, and counts as an element."""
    raw, index = operation.operands
    source = rewriter.tile(raw)
    ends = [edge for edge in source.edges if edge.fails]
    source = rewriter.filled(raw, 0, ends)
    rewriter.emit(operation, (source.value, rewriter.value(index)))
    rewriter.set(operation.result, TrackedTile(operation.result, rewriter.tile(index).edges))


# Those of several operands or results, each by itself.
SHUFFLES = {"join": _two, "cat": _two, "split": _split, "gather": _gather}

"""Rewrite operations that leave lanes where they are: element-wise ones, and choices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ninetoothed import ir
from ninetoothed.ir import Value
from ninetoothed.language.primitive import Number
from ninetoothed.passes.overhang import contents, infinities
from ninetoothed.passes.overhang.conditions import is_implied
from ninetoothed.passes.overhang.edges import BoundEdge, MaskEdge, OverhangEdge
from ninetoothed.passes.overhang.tiles import TrackedTile, clashes, distinct

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter


def elementwise(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Rewrite an element-wise operation: a lane is overhang where a lane of some operand is."""
    tiles = [rewriter.tile(raw) for raw in operation.operands]
    rewriter.emit(operation, tuple(tile.value for tile in tiles))
    for result in operation.results:
        rewriter.set(result, joined(rewriter, operation, tiles, result))


def joined(rewriter: OverhangRewriter, operation: ir.Apply, tiles: list[TrackedTile], result: Value) -> TrackedTile:
    """Make the result of an element-wise operation: it has the edges of all operands."""
    tile = TrackedTile(result, distinct(edge for each in tiles for edge in each.edges), clashes=clashes(tiles))
    known = {}
    for edge in tile.ends(rewriter.facts):
        held = [_held(each, edge) for each in tiles]
        if operation.function == "where" and is_implied(rewriter, operation.operands[0], edge):
            held[0] = False  # past the edge
        number = contents.computed(operation, held)
        known[edge] = infinities.added(rewriter, operation, held, edge) if number is None else number
    return replace(tile, contents=known)


def _held(tile: TrackedTile, edge: OverhangEdge) -> Number | None:
    """Return the number that an operand holds past an edge of the result, if it is known."""
    is_own = edge in tile.edges or (isinstance(edge, BoundEdge) and edge.parameter is None)
    return tile.held(edge) if is_own else tile.number


# -- choices ---------------------------------------------------------------------------------------


def where(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Rewrite a choice: a lane is overhang where the condition is, or the side chosen."""
    condition, then, otherwise = (rewriter.tile(raw) for raw in operation.operands)
    implied = [edge for edge in then.edges if is_implied(rewriter, operation.operands[0], edge)]
    # Past those, the other side was chosen.
    past = {edge: otherwise.held(edge) for edge in implied}
    left = tuple(edge for edge in then.edges if edge not in implied and edge not in condition.edges)
    right = tuple(edge for edge in otherwise.edges if edge not in condition.edges)
    rewriter.emit(operation, (condition.value, then.value, otherwise.value))
    then, otherwise = replace(then, edges=left), replace(otherwise, edges=right)
    if set(left) == set(right) or not any(edge.fails for edge in (*left, *right)):
        tile = joined(rewriter, operation, [condition, then, otherwise], operation.result)
    else:
        tile = _between(rewriter, operation, condition, then, otherwise)
    rewriter.set(operation.result, replace(tile, contents={**tile.contents, **past}))


def _between(
    rewriter: OverhangRewriter, operation: ir.Apply, condition: TrackedTile, then: TrackedTile, otherwise: TrackedTile
) -> TrackedTile:
    """Make the result of a choice between sides with different edges: a mask tells those of the side chosen."""
    told = rewriter.builder.choice(condition.value, rewriter.mask(then), rewriter.mask(otherwise))
    mask = MaskEdge(told, *_fillable(then, otherwise), frozenset((*then.edges, *otherwise.edges)))
    bare = [condition, replace(then, edges=()), replace(otherwise, edges=())]
    tile = joined(rewriter, operation, bare, operation.result)
    held = {side.held(edge) for side in (then, otherwise) for edge in side.edges if edge.fails}
    known: dict[OverhangEdge, Number | None] = {mask: next(iter(held))} if len(held) == 1 else {}
    return replace(tile, edges=(*tile.edges, mask), contents={**tile.contents, **known})


def _fillable(then: TrackedTile, otherwise: TrackedTile) -> tuple[tuple[BoundEdge, ...], Number | None]:
    """Return the bounds of x, and 0, of `where(c, x, 0)`; (), None where both sides are numbers, or neither is."""
    pairs = ((then.edges, otherwise.number), (otherwise.edges, then.number))
    simple = [(edges, number) for edges, number in pairs if edges and number is not None]
    if len(simple) == 1:
        edges, number = simple[0]
        bounds = tuple(edge for edge in edges if isinstance(edge, BoundEdge))
        if len(bounds) == len(edges):
            return bounds, number
    return (), None

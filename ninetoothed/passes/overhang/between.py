"""Rewrite tiles between two fused kernels: they are to be what a load would give that follows the store.

y = passed(x, at lane < n else 0)    ->    y = where(lane < n, x, 0)    if some use reads the lanes past n
                                     ->    y = x                        if none does
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ninetoothed import ir
from ninetoothed.arrangement.guards import Edge
from ninetoothed.expr import Facts, const, simplify
from ninetoothed.ir.lanes import with_lanes
from ninetoothed.passes.overhang.edges import BoundEdge
from ninetoothed.passes.overhang.tiles import TrackedTile, distinct

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter


def passed(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Make the value what a load of the second kernel would give: with its edges, and its `other` out of bounds."""
    access: ir.Access = operation.attribute("access")
    inner, result = rewriter.tile(operation.operands[0]), operation.result
    facts = with_lanes(rewriter.facts, access.type.axes)
    unread = rewriter.unread.get(result)
    held = {edge.remaining for edge in _simple(inner, facts) if inner.held(edge) == access.other}
    remaining = {guard: None if guard.lower else simplify(guard.size - guard.index, facts) for guard in access.guards}
    needed = [g for g, each in remaining.items() if unread is not None and each not in held and each not in unread]
    value, filled = inner.value, held.union(each for guard, each in remaining.items() if guard in needed)
    # Within are lanes below the size, and those whose index is above -1.
    bounds = [(guard.index, guard.size) for guard in needed if guard.upper]
    bounds += [(const(-1), guard.index) for guard in needed if guard.lower]
    mask = rewriter.builder.mask((BoundEdge.of(Edge(*bound), access.type.axes, facts) for bound in bounds), access.type)
    if mask is not None:
        value = rewriter.builder.choice(mask, value, rewriter.builder.number(access.other, access.type))
        object.__setattr__(value, "hint", result.hint)
    tile = TrackedTile(value, distinct(rewriter.edges_of(access)))
    past = (edge for edge in _simple(tile, facts) if edge.remaining in filled)
    rewriter.set_read(result, replace(tile, contents=dict.fromkeys(past, access.other)))


def _simple(tile: TrackedTile, facts: Facts) -> list[BoundEdge]:
    """Return the edges of a tile that are one inequality, and past which there are lanes."""
    return [edge for edge in tile.ends(facts) if isinstance(edge, BoundEdge) and not edge.reached]

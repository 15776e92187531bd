"""Refuse to store what is past the end of an entry of a jagged tensor at a place that is in bounds.

y[p, lane] = x[start + lane] where lane < length    of a dense y: which number is it past the end of the entry?
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninetoothed import ir
from ninetoothed.errors import ApplicationError
from ninetoothed.expr import is_nonnegative
from ninetoothed.ir.lanes import with_lanes
from ninetoothed.passes.overhang.edges import BoundEdge, OverhangEdge
from ninetoothed.passes.overhang.tiles import TrackedTile

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter


def check_store(rewriter: OverhangRewriter, access: ir.Access, tile: TrackedTile) -> None:
    """Raise where a store would write overhang of an entry."""
    edges = [edge for edge in tile.edges if edge.fails and _is_of_entry(edge)]
    if not edges:
        return
    facts = with_lanes(rewriter.facts, access.type.axes)
    for guard in access.guards:
        facts = facts.assume(*guard.range)
    for edge in edges:
        if isinstance(edge, BoundEdge) and not is_nonnegative(edge.remaining - 1, facts):
            whose = "a jagged tensor" if edge.parameter is None else repr(edge.parameter)
            raise ApplicationError.at(
                f"kernel {rewriter.program.name!r}: elements past the end of an entry of {whose} would be stored to"
                f" {access.parameter!r}, whose own are not past its end; give {whose} `other=`, which is read there, or"
                f" choose what to store with `ntl.where`",
                rewriter.builder.location,
            )


def _is_of_entry(edge: OverhangEdge) -> bool:
    """Tell whether an edge is at a size that only a run knows: the length of an entry."""
    return isinstance(edge, BoundEdge) and not edge.size.variables.isdisjoint(name for name, _ in edge.bindings)

"""Track values with their edges, and with what is known of the numbers past these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ninetoothed import ir
from ninetoothed.expr import Facts
from ninetoothed.language.primitive import Number
from ninetoothed.passes.overhang.edges import BoundEdge, MaskEdge, OverhangEdge, rounding

# Two edges along one axis that end at different places, whose tiles met in an operation.
EdgeClash = tuple[OverhangEdge, OverhangEdge]


@dataclass(frozen=True)
class TrackedTile:
    """A value of the new program.

    edges: those that some use can tell, in the order in which they were met; rounding is told by the type. contents:
    the numbers that lanes past an edge hold, where known. number: the one that all lanes hold, where known.
    """

    value: ir.Value
    edges: tuple[OverhangEdge, ...] = ()
    contents: Mapping[OverhangEdge, Number | None] = field(default_factory=dict)
    number: Number | None = None
    clashes: tuple[EdgeClash, ...] = ()

    def ends(self, facts: Facts) -> tuple[OverhangEdge, ...]:
        """Collect the edges past which there may be lanes."""
        return tuple(edge for edge in distinct((*self.edges, *rounding(self.value.type, facts))) if edge.fails)

    def held(self, edge: OverhangEdge) -> Number | None:
        """Return the number that all lanes past an edge hold, if it is known."""
        return self.contents.get(edge, self.number)

    def holds(self, number: Number | None, edges: Iterable[OverhangEdge]) -> bool:
        """Tell whether the lanes past all of these edges hold a number."""
        return number is not None and all(self.held(edge) == number for edge in edges)


def distinct(edges: Iterable[OverhangEdge]) -> tuple[OverhangEdge, ...]:
    """Drop edges that come again.

    Of two equal ones, that is kept past which there may be lanes: no element is past the end of a tile of 5 that ends
    at 5, but three of its eight lanes are.
    """
    found: dict[OverhangEdge, OverhangEdge] = {}
    for edge in edges:
        if edge.fails or edge not in found:
            found[edge] = edge
    return tuple(found.values())


def clashes(tiles: Iterable[TrackedTile]) -> tuple[EdgeClash, ...]:
    """Find pairs of edges, of two tiles of one operation, along one axis, that end at different places."""
    found: list[EdgeClash] = []
    seen: list[TrackedTile] = []
    for tile in tiles:
        found += tile.clashes
        for other in seen:
            left = [edge for edge in other.edges if edge not in tile.edges and not edge.uniform]
            right = [edge for edge in tile.edges if edge not in other.edges and not edge.uniform]
            pairs = ((a, b) for a in left for b in right if a.axes & b.axes and (a.fails or b.fails))
            found += [(a, b) for a, b in pairs if not _origins(a) & _origins(b)]
        seen.append(tile)
    return tuple(dict.fromkeys(found))


def _origins(edge: OverhangEdge) -> frozenset[OverhangEdge]:
    return edge.origins if isinstance(edge, MaskEdge) and edge.origins else frozenset((edge,))


def ends_later(edge: OverhangEdge, other: OverhangEdge) -> bool:
    """Tell whether an edge is proved not to come before another."""
    if not (isinstance(edge, BoundEdge) and isinstance(other, BoundEdge)) or edge.reached or other.reached:
        return False
    difference = edge.remaining - other.remaining
    return difference.is_constant and difference.constant >= 0

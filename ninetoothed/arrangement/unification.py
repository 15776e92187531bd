"""Unify two arrangements: find values of sizes and blocks under which both cut a tensor into the same tiles.

(n,).tile((BLOCK,)), (m,).tile((OTHER_BLOCK,))    ->    {m: n, OTHER_BLOCK: BLOCK}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ninetoothed.arrangement.metaops import index_map
from ninetoothed.arrangement.operands import shape_text
from ninetoothed.arrangement.symbol import Symbol, leaves_of
from ninetoothed.arrangement.value import Arrangement, Size
from ninetoothed.expr import as_expr


@dataclass(frozen=True)
class Difference:
    """A difference of two arrangements: its place, and what either has there."""

    place: str
    left: Any
    right: Any

    def told(self, left: str, right: str) -> str:
        return f"{self.place} differs: {self.left} of {left}, {self.right} of {right}"


def unify(
    left: Arrangement, right: Arrangement, blocks: frozenset[str], values: Mapping[str, Size]
) -> dict[str, Size] | Difference:
    """Find values of sizes and of `blocks` under which two arrangements cut alike, beside those known; or a difference.

    Sizes are compared first, then tiles, then programs: block sizes stand alone in the shapes of tiles.
    """
    found = dict(values)
    if len(left.levels) != len(right.levels):
        return Difference("the number of levels", len(left.levels), len(right.levels))
    sizes = frozenset(str(size) for size in (*left.source.sizes, *right.source.sizes) if isinstance(size, Symbol))
    places = ["the tensor", *["the tiles"] * (len(left.levels) - 1), "the outermost level"]
    left_shapes, right_shapes = ((each.source.sizes, *reversed(each.levels)) for each in (left, right))
    for place, mine, theirs in zip(places, left_shapes, right_shapes, strict=True):
        if len(mine) != len(theirs):
            return Difference(f"the shape of {place}", shape_text(mine), shape_text(theirs))
        for dim, pair in enumerate(zip(mine, theirs, strict=True)):
            a, b = (_value(size, found) for size in pair)
            if as_expr(a) != as_expr(b) and not _bind(a, b, sizes if place == places[0] else blocks, found):
                return Difference(f"dimension {dim} of {place}", _shown(a), _shown(b))
    if index_map(left.subs(found)) != index_map(right.subs(found)):
        return Difference("the order of elements", "that", "that")
    return found


def _bind(a: Size, b: Size, free: frozenset[str], values: dict[str, Size]) -> bool:
    """Let a free symbol stand for the other size, the second if both are free; tell whether they can be equal."""
    for kept, symbol in ((a, b), (b, a)):
        if not (isinstance(symbol, Symbol) and symbol.name in free):
            continue
        if symbol.meta and not all(leaf.meta or leaf.constexpr for leaf in leaves_of(kept).values()):
            continue  # a block is no size of a tensor
        known: dict[str, Size] = {}
        if isinstance(kept, Symbol) and kept.name in free:
            narrowed = kept.narrowed(symbol)
            if narrowed is None:
                return False
            known[str(kept)] = kept = narrowed
        known[str(symbol)] = kept
        values.update({name: _value(value, known) for name, value in values.items()} | known)
        return True
    return False


def _shown(size: Size) -> str:
    if isinstance(size, Symbol) and size.meta:
        return f"{size} (from {size.lower_bound} to {size.upper_bound})"
    return str(as_expr(size))


def _value(size: Size, values: Mapping[str, Size]) -> Size:
    return size.subs(values) if isinstance(size, Symbol) else size

"""Rewrite operations that leave lanes where they are: element-wise ones, and choices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ninetoothed import ir
from ninetoothed.ir import Value
from ninetoothed.language.primitive import Number
from ninetoothed.passes.overhang import contents
from ninetoothed.passes.overhang.conditions import is_implied
from ninetoothed.passes.overhang.edges import BoundEdge, MaskEdge, OverhangEdge, mask_type
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
    number = contents.computed(operation, [each.number for each in tiles])
    known = {}
    for edge in tile.ends(rewriter.facts):
        held = [_held(rewriter, operation, tiles, position, edge) for position in range(len(tiles))]
        if operation.function == "where" and is_implied(rewriter, operation.operands[0], edge):
            held[0] = False  # past the edge
        found = contents.computed(operation, held)
        if found is None:
            found = _falls(rewriter, operation, held)
        if found is not None:
            known[edge] = found
    return replace(tile, contents=known, number=number)


def _held(
    rewriter: OverhangRewriter, operation: ir.Apply, tiles: list[TrackedTile], position: int, edge: OverhangEdge
) -> Number | None:
    """Return the number that an operand holds past an edge of the result, if it is known."""
    tile = tiles[position]
    is_own = edge in tile.edges or (isinstance(edge, BoundEdge) and edge.parameter is None)
    return tile.held(edge) if is_own else tile.number


def _falls(rewriter: OverhangRewriter, operation: ir.Apply, held: list[Number | None]) -> Number | None:
    """Tell that `-inf - x` is -inf unless x is: in a softmax, x is the peak of all that count."""
    if operation.function == "sub" and held[0] == -float("inf") and held[1] is None:
        if _is_above(rewriter, operation.operands[1], operation.operands[0]):
            return held[0]
    return None


def _behind_views(rewriter: OverhangRewriter, raw: Value) -> ir.Operation | None:
    """Return the operation behind views and casts."""
    operation = rewriter.producers.get(raw)
    while isinstance(operation, ir.Apply) and (operation.primitive.is_view or operation.function in ("cast", "assign")):
        operation = rewriter.producers.get(operation.operands[-1 if operation.function == "assign" else 0])
    return operation


def _is_above(rewriter: OverhangRewriter, raw: Value, other: Value) -> bool:
    """Tell whether a value is -inf at most where all that counts of `other` is, which makes results NaN anyway."""
    match _behind_views(rewriter, raw):
        case ir.Constant(value=number):
            return number != -float("inf")
        case ir.Apply(function="max", operands=(inner,)):
            return _root(rewriter, inner) is _root(rewriter, other)
        case ir.Apply(function="maximum", operands=sides):
            return any(_is_above(rewriter, side, other) for side in sides)
        case ir.Apply(function="where", operands=(condition, then, otherwise)):
            test, chosen = _behind_views(rewriter, condition), _behind_views(rewriter, then)
            if isinstance(test, ir.Apply) and test.function == "eq" and isinstance(chosen, ir.Constant):
                infinite = _behind_views(rewriter, test.operands[1])
                is_tested = _behind_views(rewriter, test.operands[0]) is _behind_views(rewriter, otherwise)
                is_infinite = isinstance(infinite, ir.Constant) and infinite.value == -float("inf")
                return is_tested and is_infinite and chosen.value != -float("inf")
    return False


def _root(rewriter: OverhangRewriter, raw: Value) -> ir.Operation | Value:
    return _behind_views(rewriter, raw) or raw


# -- choices ---------------------------------------------------------------------------------------


def where(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Rewrite a choice: a lane is overhang where the condition is, or the side chosen."""
    condition, then, otherwise = (rewriter.tile(raw) for raw in operation.operands)
    implied = [edge for edge in then.edges if is_implied(rewriter, operation.operands[0], edge)]
    # Past those, the other side was chosen.
    past = {edge: otherwise.held(edge) for edge in implied if otherwise.held(edge) is not None}
    left = tuple(edge for edge in then.edges if edge not in implied and edge not in condition.edges)
    right = tuple(edge for edge in otherwise.edges if edge not in condition.edges)
    rewriter.emit(operation, (condition.value, then.value, otherwise.value))
    then, otherwise = replace(then, edges=left), replace(otherwise, edges=right)
    if set(left) == set(right) or not any(edge.fails for edge in (*left, *right)):
        tile = joined(rewriter, operation, [condition, then, otherwise], operation.result)
    else:
        tile = _between(rewriter, operation, condition, then, otherwise)
    rewriter.set(operation.result, replace(tile, contents={**past, **tile.contents}))


def _between(
    rewriter: OverhangRewriter, operation: ir.Apply, condition: TrackedTile, then: TrackedTile, otherwise: TrackedTile
) -> TrackedTile:
    """Make the result of a choice between sides with different edges: a mask tells those of the side chosen."""
    builder, type = rewriter.builder, operation.result.type
    sides = [builder.mask(side.edges, type) for side in (then, otherwise)]
    yes, no = (builder.number(True, mask_type(type)) if side is None else side for side in sides)
    told = builder.choice(condition.value, builder.stretched(yes, type), builder.stretched(no, type))
    mask = MaskEdge(told, *_fillable(then, otherwise), frozenset((*then.edges, *otherwise.edges)))
    bare = [condition, replace(then, edges=()), replace(otherwise, edges=())]
    tile = joined(rewriter, operation, bare, operation.result)
    held = {side.held(edge) for side in (then, otherwise) for edge in side.edges if edge.fails}
    known: dict[OverhangEdge, Number | None] = {mask: next(iter(held))} if len(held) == 1 and None not in held else {}
    return replace(tile, edges=(*tile.edges, mask), contents={**tile.contents, **known})


def _fillable(then: TrackedTile, otherwise: TrackedTile) -> tuple[tuple[BoundEdge, ...], Number | None]:
    """Return the bounds of one side, and the number that the other holds in all lanes, where only one side is so."""
    pairs = ((then.edges, otherwise.number), (otherwise.edges, then.number))
    simple = [(edges, number) for edges, number in pairs if edges and number is not None]
    if len(simple) == 1:
        edges, number = simple[0]
        bounds = tuple(edge for edge in edges if isinstance(edge, BoundEdge))
        if len(bounds) == len(edges):
            return bounds, number
    return (), None

"""Operations that leave lanes where they are: element by element, and choices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ninetoothed import ir
from ninetoothed.ir import Value
from ninetoothed.language.primitive import Number
from ninetoothed.passes.overhang import contents
from ninetoothed.passes.overhang.conditions import is_implied
from ninetoothed.passes.overhang.edges import Bound, Edge, Mask, mask_type
from ninetoothed.passes.overhang.tiles import Tile, clashes, distinct

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import Rewriter


def elementwise(work: Rewriter, operation: ir.Apply) -> None:
    """A lane is overhang where a lane of some operand is."""
    tiles = [work.tile(raw) for raw in operation.operands]
    work.emit(operation, tuple(tile.value for tile in tiles))
    for result in operation.results:
        work.set(result, joined(work, operation, tiles, result))


def joined(work: Rewriter, operation: ir.Apply, tiles: list[Tile], result: Value) -> Tile:
    tile = Tile(result, distinct(edge for each in tiles for edge in each.edges), clashes=clashes(tiles))
    number = contents.computed(operation, [each.number for each in tiles])
    known = {}
    for edge in tile.ends(work.facts):
        held = [_held(work, operation, tiles, position, edge) for position in range(len(tiles))]
        if operation.function == "where" and is_implied(work, operation.operands[0], edge):
            held[0] = False  # past the edge
        found = contents.computed(operation, held)
        if found is None:
            found = _falls(work, operation, held)
        if found is not None:
            known[edge] = found
    return replace(tile, contents=known, number=number)


def _held(work: Rewriter, operation: ir.Apply, tiles: list[Tile], position: int, edge: Edge) -> Number | None:
    tile = tiles[position]
    is_own = edge in tile.edges or (isinstance(edge, Bound) and edge.parameter is None)
    return tile.held(edge) if is_own else tile.number


def _falls(work: Rewriter, operation: ir.Apply, held: list[Number | None]) -> Number | None:
    """`-inf - x` is -inf unless x is; so it is in a softmax, where x is the peak of all that count."""
    if operation.function == "sub" and held[0] == -float("inf") and held[1] is None:
        if _is_above(work, operation.operands[1], operation.operands[0]):
            return held[0]
    return None


def _peeled(work: Rewriter, raw: Value) -> ir.Operation | None:
    """The operation behind moves and casts."""
    operation = work.producers.get(raw)
    while isinstance(operation, ir.Apply) and (operation.primitive.is_view or operation.function in ("cast", "assign")):
        operation = work.producers.get(operation.operands[-1 if operation.function == "assign" else 0])
    return operation


def _is_above(work: Rewriter, raw: Value, other: Value) -> bool:
    """Tell whether a value is -inf at most where all that counts of `other` is, which makes results NaN anyway."""
    match _peeled(work, raw):
        case ir.Constant(value=number):
            return number != -float("inf")
        case ir.Apply(function="max", operands=(inner,)):
            return _root(work, inner) is _root(work, other)
        case ir.Apply(function="maximum", operands=sides):
            return any(_is_above(work, side, other) for side in sides)
        case ir.Apply(function="where", operands=(condition, then, otherwise)):
            test, chosen = _peeled(work, condition), _peeled(work, then)
            if isinstance(test, ir.Apply) and test.function == "eq" and isinstance(chosen, ir.Constant):
                infinite = _peeled(work, test.operands[1])
                is_tested = _peeled(work, test.operands[0]) is _peeled(work, otherwise)
                is_infinite = isinstance(infinite, ir.Constant) and infinite.value == -float("inf")
                return is_tested and is_infinite and chosen.value != -float("inf")
    return False


def _root(work: Rewriter, raw: Value) -> ir.Operation | Value:
    return _peeled(work, raw) or raw


# -- choices ---------------------------------------------------------------------------------------


def where(work: Rewriter, operation: ir.Apply) -> None:
    """A lane is overhang where the condition is, or the side chosen."""
    condition, then, otherwise = (work.tile(raw) for raw in operation.operands)
    left = [edge for edge in then.edges if not is_implied(work, operation.operands[0], edge)]
    left, right = ([e for e in own if e not in condition.edges] for own in (left, otherwise.edges))
    result = operation.result
    if set(left) == set(right) or not any(edge.fails for edge in (*left, *right)):
        narrowed = [condition, replace(then, edges=tuple(left)), replace(otherwise, edges=tuple(right))]
        work.emit(operation, tuple(tile.value for tile in (condition, then, otherwise)))
        return work.set(result, joined(work, operation, narrowed, result))
    work.emit(operation, (condition.value, then.value, otherwise.value))
    emission, type = work.emission, result.type
    sides = [emission.mask(own, type) for own in (left, right)]
    yes, no = (emission.number(True, mask_type(type)) if side is None else side for side in sides)
    told = emission.choice(condition.value, emission.stretched(yes, type), emission.stretched(no, type))
    simple = [(own, side.number) for own, side in ((left, otherwise), (right, then)) if own and side.number is not None]
    bounds = tuple(edge for own, _ in simple[:1] for edge in own if isinstance(edge, Bound))
    is_simple = len(simple) == 1 and len(bounds) == len(simple[0][0])
    own, number = (bounds, simple[0][1]) if is_simple else ((), None)
    mask = Mask(told, own, number, frozenset((*left, *right)))
    held = {tile.held(edge) for tile, own in ((then, left), (otherwise, right)) for edge in own if edge.fails}
    tile = joined(work, operation, [condition, replace(then, edges=()), replace(otherwise, edges=())], result)
    known: dict[Edge, Number | None] = {mask: next(iter(held))} if len(held) == 1 and None not in held else {}
    fixed = tuple(pair for each in (then, otherwise) for pair in each.clashes)
    work.set(
        result,
        replace(tile, edges=(*tile.edges, mask), contents={**tile.contents, **known}, clashes=(*tile.clashes, *fixed)),
    )

"""Rewrite operations that combine the lanes along an axis: they leave overhang out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ninetoothed import dtypes, ir
from ninetoothed.expr import const, var
from ninetoothed.ir import TileType, Value
from ninetoothed.language.primitive import Form
from ninetoothed.language.primitives import PRIMITIVES
from ninetoothed.passes.overhang import contents, edges as edges_
from ninetoothed.passes.overhang.edges import BoundEdge, MaskEdge, OverhangEdge, with_lanes
from ninetoothed.passes.overhang.tiles import TrackedTile, clashes, distinct

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter


def _axes(operation: ir.Apply) -> frozenset[int]:
    axis, rank = operation.attribute("axis"), len(operation.operands[0].type.lanes)
    return frozenset(range(rank)) if axis is None else frozenset((axis % rank,))


def _met(ends: Iterable[OverhangEdge], axes: frozenset[int], type: TileType) -> list[OverhangEdge]:
    """Return the edges along some axes; those that concern the whole tile where none is left but axes of one lane."""
    is_all = all(count == 1 for axis, count in enumerate(type.lanes) if axis not in axes)
    return [edge for edge in ends if edge.axes & axes or (not edge.axes and is_all)]


def _left(
    rewriter: OverhangRewriter, operation: ir.Apply, tile: TrackedTile, result: Value, axes: frozenset[int]
) -> TrackedTile:
    """Make the result of a reduction, with the edges along the axes that remain."""
    ends = distinct((*tile.edges, *tile.ends(rewriter.facts))) if result.type.lanes else ()
    met = _met(ends, axes, tile.value.type)
    found = {edge: _kept(rewriter, operation, edge, tile.value.type, result.type) for edge in ends if edge not in met}
    held = [(new, tile.held(edge)) for edge, new in found.items()]
    is_any = operation.function in ("max", "min")
    known = {edge: n for edge, n in held if n is not None and is_any or n == 0 and operation.function == "sum"}
    own = tuple(new for edge, new in found.items() if edge in tile.edges)
    pairs = tuple((found[a], found[b]) for a, b in tile.clashes if a in found and b in found)
    return TrackedTile(result, own, known, clashes=pairs)


def _kept(
    rewriter: OverhangRewriter, operation: ir.Apply, edge: OverhangEdge, source: TileType, target: TileType
) -> OverhangEdge:
    """Return an edge of a reduction's operand, along axes that remain, as one of its result."""
    kept = operation.axes.kept()
    if isinstance(edge, BoundEdge):
        moves = {old: edges_.lane(target, new) for old, new in kept.items()}
        bound = edges_.moved(edge, moves, target, with_lanes(rewriter.facts, target), kept)
        assert bound is not None, "it has none of the axes that are lost"
        return bound
    if operation.attribute("keep_dims"):
        return edge
    lanes = tuple(edge.value.type.lanes[a] for a in sorted(kept))
    return MaskEdge(rewriter.builder.apply("reshape", (edge.value,), TileType(dtypes.int1, target.shape, lanes)))


def _reduction(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    (raw,) = operation.operands
    tile, axes = rewriter.tile(raw), _axes(operation)
    rewriter.settle(tile.clashes, axes, operation.location)
    ends = _met(tile.ends(rewriter.facts), axes, tile.value.type)
    number = contents.identity(operation.primitive, tile.value.type.dtype)
    if operation.function.startswith("arg") and not all(edge.is_prefix for edge in ends):
        tile = _candidates(rewriter, raw, tile, ends, operation)
    else:
        tile = rewriter.filled(raw, tile, number, ends)
    rewriter.emit(operation, (tile.value,))
    rewriter.set(operation.result, _left(rewriter, operation, tile, operation.result, axes))


def _candidates(
    rewriter: OverhangRewriter, raw: Value, tile: TrackedTile, ends: list[OverhangEdge], operation: ir.Apply
) -> TrackedTile:
    """Mark the extremum by 1, all else and overhang by 0: overhang may come first, and the greatest is found.

    `operation` then is an `argmin` of what is negated.
    """
    builder, type = rewriter.builder, tile.value.type
    filled = rewriter.filled(raw, tile, contents.identity(operation.primitive, type.dtype), ends)
    shape = tuple(s if a not in _axes(operation) else const(1) for a, s in enumerate(type.shape))
    lanes = tuple(n if a not in _axes(operation) else 1 for a, n in enumerate(type.lanes))
    extremum = builder.apply(
        operation.function.removeprefix("arg"), (filled.value,), TileType(type.dtype, shape, lanes),
        axis=operation.attribute("axis"), keep_dims=True, **({"propagate_nan": True} if type.dtype.is_floating else {}),
    )  # fmt: skip
    found = builder.together("eq", filled.value, extremum, dtypes.int1)
    if type.dtype.is_floating:
        is_nan = builder.together("ne", filled.value, filled.value, dtypes.int1)
        found = builder.together("or", found, is_nan, dtypes.int1)
    found = builder.together("and", found, builder.mask_of_some(ends, type), dtypes.int1)
    number = builder.apply("cast", (found,), TileType(dtypes.int32, type.shape, type.lanes))
    if operation.function == "argmin":
        number = builder.apply("neg", (number,), number.type)
    return replace(tile, value=number, contents={}, number=None)


# -- scans and sorts -------------------------------------------------------------------------------


def _scan(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    (raw,) = operation.operands
    tile, axes = rewriter.tile(raw), _axes(operation)
    rewriter.settle(tile.clashes, axes, operation.location)
    ends = _met(tile.ends(rewriter.facts), axes, tile.value.type)
    # Overhang behind all elements changes no result.
    if operation.attribute("reverse") or not all(edge.is_prefix for edge in ends):
        tile = rewriter.filled(raw, tile, contents.identity(operation.primitive, tile.value.type.dtype), ends)
    rewriter.emit(operation, (tile.value,))
    rewriter.set(operation.result, TrackedTile(operation.result, tile.edges))


def sort(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Sort overhang last, in either direction."""
    (raw,) = operation.operands
    tile, type = rewriter.tile(raw), operation.result.type
    last = len(type.lanes) - 1
    rewriter.settle(tile.clashes, frozenset((last,)), operation.location)
    ends = _met(tile.ends(rewriter.facts), frozenset((last,)), type)
    chosen = PRIMITIVES["max" if operation.attribute("descending") else "min"]
    filled = rewriter.filled(raw, tile, contents.identity(chosen, type.dtype), ends)
    rewriter.emit(operation, (filled.value,))
    kept = tile.edges
    if not all(edge.is_prefix for edge in ends):
        kept = (*(edge for edge in tile.edges if edge not in ends), _counted(rewriter, ends, type, last))
    rewriter.set(operation.result, TrackedTile(operation.result, kept))


def _counted(rewriter: OverhangRewriter, ends: list[OverhangEdge], type: TileType, axis: int) -> MaskEdge:
    """Make the edge of a tile whose elements have been moved to the front."""
    builder = rewriter.builder
    inside = builder.stretched(builder.mask_of_some(ends, type), type)
    ones = builder.apply("cast", (inside,), TileType(dtypes.int32, type.shape, type.lanes))
    shape, lanes = (*type.shape[:axis], const(1)), (*type.lanes[:axis], 1)
    count = builder.apply("sum", (ones,), TileType(dtypes.int32, shape, lanes), axis=axis, keep_dims=True)
    own = ir.Lane.of(axis, type.lanes[axis])
    place = builder.index(var(own.name), (own,), (), type)
    return MaskEdge(builder.together("lt", place, count, dtypes.int1))


def histogram(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Mask overhang out."""
    tiles, builder = [rewriter.tile(raw) for raw in operation.operands], rewriter.builder
    rewriter.settle(clashes(tiles), frozenset((0,)), operation.location)
    operands = tuple(tile.value for tile in tiles)
    ends = distinct(edge for tile in tiles for edge in tile.ends(rewriter.facts))
    if ends:
        type = operands[0].type
        inside = builder.stretched(builder.mask_of_some(ends, type), type)
        masks = [builder.together("and", inside, each, dtypes.int1) for each in operands[1:]]
        operands = (operands[0], *(masks or [inside]))
    rewriter.emit(operation, operands)
    rewriter.set(operation.result, TrackedTile(operation.result))


# -- with a function of the user's -----------------------------------------------------------------


def _combined(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Combine a flag beside the values, which tells overhang: no identity is needed.

    reduce(x, f)  ->  reduce((x, inside), lambda a, in_a, b, in_b: (f(a, b) if in_a and in_b else a or b, in_a or in_b))
    """
    tiles, axes = [rewriter.tile(raw) for raw in operation.operands], _axes(operation)
    type = operation.operands[0].type
    # A lane of any result is made of all operands.
    edges, pairs = distinct(edge for tile in tiles for edge in tile.edges), clashes(tiles)
    rewriter.settle(pairs, axes, operation.location)
    ends = distinct(e for tile in tiles for e in _met(tile.ends(rewriter.facts), axes, type))
    is_scan = operation.function == "associative_scan"
    if is_scan and not operation.attribute("reverse") and all(edge.is_prefix for edge in ends):
        ends = ()
    values = tuple(tile.value for tile in tiles)
    if not ends:
        rewriter.emit(operation, values)
    else:
        inside = rewriter.builder.stretched(rewriter.builder.mask_of_some(ends, type), type)
        flag = rewriter.builder.apply("cast", (inside,), TileType(dtypes.int32, type.shape, type.lanes))
        last = Value(TileType(dtypes.int32, operation.results[0].type.shape, operation.results[0].type.lanes))
        combine = _flagged(operation.attribute("combine"))
        attributes = tuple((name, combine if name == "combine" else v) for name, v in operation.attributes)
        rewriter.builder.emit(
            replace(operation, operands=(*values, flag), results=(*operation.results, last), attributes=attributes)
        )
    for tile, result in zip(tiles, operation.results, strict=True):
        joined = TrackedTile(tile.value, edges, clashes=pairs)
        known = replace(joined, value=result) if is_scan else _left(rewriter, operation, joined, result, axes)
        rewriter.set(result, known)


def _flagged(combine: ir.Lambda) -> ir.Lambda:
    """Make a combining function that leaves out overhang, as flags, the last arguments of either side, tell it."""
    half = len(combine.arguments) // 2
    left, right = combine.arguments[:half], combine.arguments[half:]
    body, flag = list(combine.body), TileType(dtypes.int32)

    def apply(function: str, operands: tuple[Value, ...], type: TileType) -> Value:
        body.append(ir.Apply((result := Value(type),), function, operands))
        return result

    in_left, in_right, zero = Value(flag, "in_left"), Value(flag, "in_right"), Value(flag)
    body.append(ir.Constant(zero, 0))
    has_left, has_right = (apply("ne", (side, zero), TileType(dtypes.int1)) for side in (in_left, in_right))
    yields = []
    for a, b, both in zip(left, right, combine.yields, strict=True):
        either = apply("where", (has_right, both, a), both.type)
        yields.append(apply("where", (has_left, either, b), both.type))
    yields.append(apply("or", (in_left, in_right), flag))
    arguments = (*left, in_left, *right, in_right)
    return replace(combine, arguments=arguments, body=tuple(body), yields=tuple(yields))


def fold(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Rewrite a reduction or a scan."""
    primitive = operation.primitive
    rule = _combined if primitive.has_combine else _scan if primitive.form is Form.SCAN else _reduction
    rule(rewriter, operation)

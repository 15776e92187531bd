"""Rewrite operations that combine the lanes along an axis: they leave overhang out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ninetoothed import dtypes, ir
from ninetoothed.expr import Expr, Facts, const, maximum, minimum, simplify, var
from ninetoothed.ir import TileType, Value
from ninetoothed.language.primitive import Number
from ninetoothed.language.primitives import PRIMITIVES
from ninetoothed.passes.overhang import contents
from ninetoothed.passes.overhang.carried import carried
from ninetoothed.passes.overhang.edges import BoundEdge, MaskEdge, OverhangEdge
from ninetoothed.passes.overhang.tiles import TrackedTile, clashes, distinct

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter


def _met(ends: Iterable[OverhangEdge], axes: frozenset[int], type: TileType) -> list[OverhangEdge]:
    """Return the edges along some axes, and where these are all axes, those that lie along none."""
    is_all = all(count == 1 for axis, count in enumerate(type.lanes) if axis not in axes)
    return [edge for edge in ends if edge.axes & axes or (not edge.axes and is_all)]


def fold(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Rewrite a reduction, a scan or a sort: fill overhang with the identity; a sort puts it last, in either order."""
    (raw,), axes, primitive = operation.operands, operation.axes.worked(), operation.primitive
    tile, type = rewriter.tile(raw), raw.type
    rewriter.check_clashes(tile.clashes, axes, operation.location)
    ends = _met(tile.ends(rewriter.facts), axes, type)
    is_prefix, kept = all(edge.is_prefix for edge in ends), tile.edges
    if operation.function.startswith("arg") and not is_prefix:
        tile = _candidates(rewriter, raw, tile, ends, operation)
    elif not primitive.is_scan or not is_prefix or operation.attribute("reverse"):
        # In a scan, overhang behind all elements changes no result.
        tile = rewriter.filled(raw, needed(operation), ends)
    rewriter.emit(operation, (tile.value,))
    if not primitive.folds and not is_prefix:
        kept = (*(edge for edge in kept if edge not in ends), _counted(rewriter, ends, operation.result.type, *axes))
    is_kept = axes <= operation.axes.shared().keys()
    result = TrackedTile(operation.result, kept) if is_kept else _left(rewriter, operation, tile)
    rewriter.set(operation.result, result)


def needed(operation: ir.Apply) -> Number | None:
    """Return the number that changes no result: 0 for `sum`, -inf for `max`. None where there is no such number."""
    chosen = operation.primitive
    if operation.function == "sort":
        chosen = PRIMITIVES["max" if operation.attribute("descending") else "min"]
    elif not chosen.folds or chosen.has_combine:
        return 0 if operation.function == "dot" else None
    return contents.identity(chosen, operation.operands[0].type.dtype)


def _left(rewriter: OverhangRewriter, operation: ir.Apply, tile: TrackedTile, result: int = 0) -> TrackedTile:
    """Make the result of a reduction, with the edges along the axes that remain."""
    met = _met((*tile.edges, *tile.ends(rewriter.facts)), operation.axes.worked(), tile.value.type)
    return carried(rewriter, operation, tile, result=result, met=met)


def _candidates(
    rewriter: OverhangRewriter, raw: Value, tile: TrackedTile, ends: list[OverhangEdge], operation: ir.Apply
) -> TrackedTile:
    """Mark the extremum by 1, all else and overhang by 0: overhang may come first, and the greatest is found.

    `operation` then is an `argmin` of what is negated.
    """
    builder, type = rewriter.builder, tile.value.type
    filled = rewriter.filled(raw, needed(operation), ends)
    nan: dict[str, Any] = {"propagate_nan": True} if type.dtype.is_floating else {}
    function, axis = operation.function.removeprefix("arg"), operation.attribute("axis")
    extremum = builder.apply(function, (filled.value,), axis=axis, keep_dims=True, **nan)
    found = builder.together("eq", filled.value, extremum)
    if type.dtype.is_floating:
        is_nan = builder.together("ne", filled.value, filled.value)
        found = builder.together("or", found, is_nan)
    found = builder.together("and", found, builder.mask_of_some(ends, type))
    number = builder.apply("cast", (found,), dtypes.int32)
    if operation.function == "argmin":
        number = builder.apply("neg", (number,))
    return replace(tile, value=number, contents={}, number=None)


def _counted(rewriter: OverhangRewriter, ends: list[OverhangEdge], type: TileType, axis: int) -> MaskEdge:
    """Make the edge of a tile whose elements have been moved to the front."""
    builder = rewriter.builder
    inside = builder.whole_mask(ends, type)
    ones = builder.apply("cast", (inside,), dtypes.int32)
    count = builder.apply("sum", (ones,), axis=axis, keep_dims=True)
    own = type.axes[axis]
    place = builder.index(var(own.name), (own,), (), type)
    return MaskEdge(builder.together("lt", place, count))


def count(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Replace a count of elements: by a number where each axis has a known end, else by the sum of the mask.

    of tiles of 64 that end at n:  count(x)  ->  minimum(n - 64 * program_0, 64)
    """
    (raw,), axes, builder = operation.operands, operation.axes.worked(), rewriter.builder
    tile, type = rewriter.tile(raw), operation.result.type
    rewriter.check_clashes(tile.clashes, axes, operation.location)
    ends = _met(tile.ends(rewriter.facts), axes, raw.type)
    bounds = [edge for edge in ends if isinstance(edge, BoundEdge) and edge.axes <= axes and len(edge.axes) == 1]
    sizes = [_size(bounds, raw.type, axis, rewriter.facts) for axis in sorted(axes)]
    known = [size for size in sizes if size is not None]
    if len(bounds) == len(ends) and len(known) == len(sizes):
        bindings = tuple({pair: None for edge in bounds for pair in edge.bindings})
        value = builder.index(math.prod(known, start=const(1)), (), bindings, type)
        value = value if value.type.dtype == dtypes.int32 else builder.apply("cast", (value,), dtypes.int32)
        value = builder.stretched(value, type)
    else:
        inside = builder.apply("cast", (builder.whole_mask(ends, raw.type),), dtypes.int32)
        value = builder.apply("sum", (inside,), **dict(operation.attributes))
    rewriter.set(operation.result, replace(_left(rewriter, operation, tile), value=value))


def _size(bounds: Iterable[BoundEdge], type: TileType, axis: int, facts: Facts) -> Expr | None:
    """Return how many lanes along an axis are elements; None where that is no expression of sizes and counters."""
    size = type.shape[axis]
    for edge in (edge for edge in bounds if axis in edge.axes):
        if edge.reached or edge.uniform:
            return None
        (lane,) = edge.lanes
        linear = edge.remaining.linear([lane.name])
        if linear is None or linear[0][lane.name] != -1:
            return None
        # `remaining` is positive in the lanes of elements, and one less from lane to lane.
        size = minimum(size, maximum(linear[1], 0))
    return simplify(size, facts)


def histogram(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Mask overhang out."""
    tiles, builder = [rewriter.tile(raw) for raw in operation.operands], rewriter.builder
    rewriter.check_clashes(clashes(tiles), frozenset((0,)), operation.location)
    operands = tuple(tile.value for tile in tiles)
    ends = distinct(edge for tile in tiles for edge in tile.ends(rewriter.facts))
    if ends:
        type = operands[0].type
        inside = builder.whole_mask(ends, type)
        masks = [builder.together("and", inside, each) for each in operands[1:]]
        operands = (operands[0], *(masks or [inside]))
    rewriter.emit(operation, operands)
    rewriter.set(operation.result, TrackedTile(operation.result))


# -- with a function of the user's -----------------------------------------------------------------


def combine(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Combine a flag beside the values, which tells overhang: no identity is needed.

    reduce(x, f)  ->  reduce((x, inside), lambda a, in_a, b, in_b: (f(a, b) if in_a and in_b else a or b, in_a or in_b))
    """
    tiles, axes = [rewriter.tile(raw) for raw in operation.operands], operation.axes.worked()
    type = operation.operands[0].type
    # A lane of any result is made of all operands.
    edges, pairs = distinct(edge for tile in tiles for edge in tile.edges), clashes(tiles)
    rewriter.check_clashes(pairs, axes, operation.location)
    ends = distinct(e for tile in tiles for e in _met(tile.ends(rewriter.facts), axes, type))
    is_scan = operation.function == "associative_scan"
    if is_scan and not operation.attribute("reverse") and all(edge.is_prefix for edge in ends):
        ends = ()
    values = tuple(tile.value for tile in tiles)
    if not ends:
        rewriter.emit(operation, values)
    else:
        inside = rewriter.builder.whole_mask(ends, type)
        flag = rewriter.builder.apply("cast", (inside,), dtypes.int32)
        last = Value(operation.results[0].type.with_dtype(dtypes.int32))
        combine = _flagged(operation.attribute("combine"))
        attributes = tuple((name, combine if name == "combine" else v) for name, v in operation.attributes)
        rewriter.builder.emit(
            replace(operation, operands=(*values, flag), results=(*operation.results, last), attributes=attributes)
        )
    for number, (tile, result) in enumerate(zip(tiles, operation.results, strict=True)):
        joined = TrackedTile(tile.value, edges, clashes=pairs)
        known = replace(joined, value=result) if is_scan else _left(rewriter, operation, joined, number)
        rewriter.set(result, known)


def _flagged(combine: ir.Lambda) -> ir.Lambda:
    """Make a combining function that leaves out a side whose flag, its last argument, is 0."""
    half = len(combine.arguments) // 2
    left, right = combine.arguments[:half], combine.arguments[half:]
    body, flag = list(combine.body), TileType(dtypes.int32)

    def apply(function: str, *operands: Value) -> Value:
        body.append(applied := ir.Apply.of(function, operands))
        return applied.result

    in_left, in_right, zero = Value(flag, "in_left"), Value(flag, "in_right"), Value(flag)
    body.append(ir.Constant(zero, 0))
    has_left, has_right = (apply("ne", side, zero) for side in (in_left, in_right))
    yields = []
    for a, b, both in zip(left, right, combine.yields, strict=True):
        either = apply("where", has_right, both, a)
        yields.append(apply("where", has_left, either, b))
    yields.append(apply("or", in_left, in_right))
    arguments = (*left, in_left, *right, in_right)
    return replace(combine, arguments=arguments, body=tuple(body), yields=tuple(yields))

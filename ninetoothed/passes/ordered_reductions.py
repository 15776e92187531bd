"""Pass: keep the order in reductions by functions that are not proved to be commutative, and tiles together.

    total = reduce(x, f)           ->  prefixes = associative_scan(x, f)
                                       total = the last of prefixes
    a, b = reduce((x, y), None, g) ->  a, b = reduce(reduce((x, y), 1, g), 0, g)

A GPU's reduction keeps no order: a thread joins elements that lie apart, and of two threads that exchange what they
have, each takes its own for the first, so that even their results differ. A scan keeps it.

Along all axes at once Triton may flatten each of several tiles in an order of its own, and so join elements that do not
belong together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ninetoothed import ir
from ninetoothed.dtypes import int1, int32
from ninetoothed.expr import const, var
from ninetoothed.ir import Apply, TileType, Value


def keep_order(program: ir.Program) -> ir.Program:
    """Rewrite such reductions."""
    return replace(program, body=_Orderer().block(program.body))


class _Orderer(ir.Rewriter):
    def operation(self, operation: ir.Operation) -> ir.Block:
        if isinstance(operation, Apply) and operation.function == "reduce":
            is_ordered = not operation.attribute("combine").is_commutative
            if is_ordered or (operation.attribute("axis") is None and len(operation.operands) > 1):
                return _along_axes(operation, is_ordered)
        return (self.rebuilt(operation),)


def _along_axes(reduction: Apply, is_ordered: bool) -> ir.Block:
    """Reduce along one axis after the other, the last first: so elements follow each other in row-major order."""
    axis, keeps = reduction.attribute("axis"), bool(reduction.attribute("keep_dims"))
    axes: Sequence[int] = (axis,)
    values, results = reduction.operands, reduction.results
    operations: list[ir.Operation] = []
    if axis is None:
        axes, keeps = range(len(values[0].type.lanes))[::-1], False
        results = tuple(Value(TileType(value.type.dtype), value.hint) for value in values)
    for each in axes:
        reduced = tuple(Value(_reduced(value.type, each, keeps), value.hint) for value in values)
        if each == axes[-1]:
            reduced = results
        attributes: tuple[tuple[str, Any], ...] = (("axis", each), ("combine", reduction.attribute("combine")))
        if is_ordered:
            prefixes = tuple(Value(value.type, value.hint) for value in values)
            operations.append(Apply(prefixes, "associative_scan", values, attributes, location=reduction.location))
            operations += _last(prefixes, each, keeps, reduced)
        else:
            attributes = (*attributes, ("keep_dims", keeps))
            operations.append(Apply(reduced, "reduce", values, attributes, location=reduction.location))
        values = reduced
    if axis is None:
        operations += [Apply((a,), "full", (b,)) for a, b in zip(reduction.results, results, strict=True)]
    return tuple(operations)


def _reduced(type: TileType, axis: int, keeps: bool) -> TileType:
    shape, lanes, kept = list(type.shape), list(type.lanes), [const(1)] if keeps else []
    shape[axis : axis + 1], lanes[axis : axis + 1] = kept, [1] * keeps
    return TileType(type.dtype, tuple(shape), tuple(lanes))


def _last(tiles: tuple[Value, ...], axis: int, keeps: bool, results: tuple[Value, ...]) -> ir.Block:
    """Take the last elements along an axis: those of the greatest number, whatever they hold."""
    type = replace(tiles[0].type, dtype=int32)
    lane, number, greatest = ir.Lane.of(axis, type.lanes[axis]), Value(type), Value(_reduced(type, axis, keeps))
    left, right = (tuple(Value(TileType(each.type.dtype)) for each in (*tiles, number)) for _ in range(2))
    is_later, yields = Value(TileType(int1)), tuple(Value(value.type) for value in left)
    chosen = (Apply((y,), "where", (is_later, a, b)) for a, b, y in zip(left, right, yields, strict=True))
    body = (Apply((is_later,), "gt", (left[-1], right[-1])), *chosen)
    combine = ir.Lambda("last", (*left, *right), body, yields, is_commutative=True)
    attributes = (("axis", axis), ("keep_dims", keeps), ("combine", combine))
    return (
        ir.Index(number, var(lane.name), (lane,)),
        Apply((*results, greatest), "reduce", (*tiles, number), attributes),
    )

"""Pass: find the place of the extremum of floats by a function that orders NaN, too: the first NaN, as in PyTorch.

    place = argmax(x)  ->  _, place = reduce((x, numbers of lanes), which of two comes first)

The same reduction gives the extremum itself, where NaN is to be that.

The comparisons of Triton's own function put NaN nowhere: threads that exchange what they have each keep the other's.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ninetoothed import ir
from ninetoothed.dtypes import int1, int32
from ninetoothed.expr import const, var
from ninetoothed.ir import Apply, TileType, Value


def order_nan(program: ir.Program) -> ir.Program:
    """Rewrite the places of extrema of floats."""
    return replace(program, body=_ArgExtrema().block(program.body))


class _ArgExtrema(ir.Rewriter):
    """Rewrites extrema. found: in the block at hand, the places found already, by what is reduced and how."""

    found: dict[tuple[Any, ...], Value]

    def block(self, block: ir.Block) -> ir.Block:
        outer, self.found = getattr(self, "found", {}), {}
        operations = super().block(block)
        self.found = outer
        return operations

    def operation(self, operation: ir.Operation) -> ir.Block:
        if isinstance(operation, Apply) and operation.operands and operation.operands[0].type.dtype.is_floating:
            key = (operation.function[-3:], operation.operands, operation.attribute("axis"))
            if operation.function in ("argmax", "argmin"):
                if key in self.found and self.found[key].type == operation.result.type:
                    self.values[operation.result] = self.found[key]
                    return ()
                extremum = Value(replace(operation.result.type, dtype=operation.operands[0].type.dtype))
                return _reduction(operation, extremum, operation.result)
            if operation.function in ("max", "min") and operation.attribute("propagate_nan"):
                self.found[key] = Value(replace(operation.result.type, dtype=int32))
                return _reduction(operation, operation.result, self.found[key])
        return (self.rebuilt(operation),)


def _reduction(operation: Apply, extremum: Value, place: Value) -> ir.Block:
    """Reduce to the extremum and its place."""
    (tile,), axis = operation.operands, operation.attribute("axis")
    keeps, before, after = bool(operation.attribute("keep_dims")), [], []
    if axis is None:  # Row-major numbers; Triton's interpreter reduces all axes of a pair only where none is kept.
        count, wholes = math.prod(tile.type.lanes), (extremum, place)
        flat = Value(TileType(tile.type.dtype, (const(count),), (count,)))
        extremum, place = (Value(TileType(each.type.dtype)) for each in wholes)
        before = [Apply((flat,), "reshape", (tile,))]
        after = [Apply((whole,), "full", (each,)) for whole, each in zip(wholes, (extremum, place), strict=True)]
        tile, axis, keeps = flat, 0, False
    lane = ir.Lane.of(axis, tile.type.lanes[axis])
    numbers = Value(replace(tile.type, dtype=int32))
    combine = _first(f"arg{operation.function[-3:]}", tile.type)
    attributes = (("axis", axis), ("keep_dims", keeps), ("combine", combine))
    reduction = Apply((extremum, place), "reduce", (tile, numbers), attributes, location=operation.location)
    return (*before, ir.Index(numbers, var(lane.name), (lane,)), reduction, *after)


def _first(function: str, type: TileType) -> ir.Lambda:
    """Make the function that chooses of two: NaN before the greater or smaller, then the lesser number."""
    body: list[ir.Operation] = []

    def apply(name: str, *operands: Value) -> Value:
        result = Value(operands[-1].type if name == "where" else TileType(int1))
        body.append(Apply((result,), name, operands))
        return result

    a, b = (Value(TileType(type.dtype), name) for name in "ab")
    i, j = (Value(TileType(int32), name) for name in "ij")
    is_before = apply("lt", i, j)
    is_better = apply("gt" if function == "argmax" else "lt", a, b)
    is_first = apply("and", apply("eq", a, b), is_before)
    is_nan = apply("and", apply("ne", a, a), apply("or", apply("eq", b, b), is_before))
    chosen = apply("or", apply("or", is_better, is_first), is_nan)
    yields = (apply("where", chosen, a, b), apply("where", chosen, i, j))
    return ir.Lambda(f"first_{function}", (a, i, b, j), tuple(body), yields, is_commutative=True)

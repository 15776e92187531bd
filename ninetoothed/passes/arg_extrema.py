"""Pass: find the place of the extremum of floats by a function that orders NaN, too: the first NaN, as in PyTorch.

    place = argmax(x)  ->  _, place = reduce((x, numbers of lanes), which of two comes first)

The comparisons of Triton's own function put NaN nowhere: threads that exchange what they have each keep the other's.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ninetoothed import ir
from ninetoothed.dtypes import int1, int32
from ninetoothed.expr import const, var
from ninetoothed.ir import Apply, TileType, Value


def order_nan(program: ir.Program) -> ir.Program | None:
    """Rewrite the places of extrema of floats; None where there are none."""
    body = _ArgExtrema().block(program.body)
    return None if body == program.body else replace(program, body=body)


class _ArgExtrema(ir.Rewriter):
    def operation(self, operation: ir.Operation) -> ir.Block:
        if isinstance(operation, Apply) and operation.function in ("argmax", "argmin"):
            if operation.operands[0].type.dtype.is_floating:
                return _reduction(operation)
        return (self.rebuilt(operation),)


def _reduction(operation: Apply) -> ir.Block:
    (tile,), place, axis = operation.operands, operation.result, operation.attribute("axis")
    keeps, before, after = bool(operation.attribute("keep_dims")), [], []
    if axis is None:  # Row-major numbers; Triton's interpreter reduces all axes of a pair only where none is kept.
        count, whole = math.prod(tile.type.lanes), place
        flat, place = Value(TileType(tile.type.dtype, (const(count),), (count,))), Value(TileType(int32))
        before, after = [Apply((flat,), "reshape", (tile,))], [Apply((whole,), "full", (place,))]
        tile, axis, keeps = flat, 0, False
    lane = ir.Lane.of(axis, tile.type.lanes[axis])
    numbers, extremum = Value(replace(tile.type, dtype=int32)), Value(replace(place.type, dtype=tile.type.dtype))
    combine = _first(operation.function, tile.type)
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

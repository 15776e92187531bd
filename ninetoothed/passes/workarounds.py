"""Pass: write what Triton gets wrong as what it gets right. Each rule names the versions that need it, of 3.6 to 3.9.

    place = argmax(x)              ->  _, place = reduce((x, numbers of lanes), which of two comes first)
    total = reduce(x, f)           ->  prefixes = associative_scan(x, f)
                                       total = the last of prefixes
    a, b = reduce((x, y), None, g) ->  a, b = reduce(reduce((x, y), 1, g), 0, g)
    cumsum(x, axis=0) of x[4, 1]   ->  reshape(cumsum(reshape(x, (4,)), axis=0), (4, 1))

The printer has more of them, where one call of Triton's stands for another: in `backends.triton.functions`, each with
its versions, which `tests/ninetoothed/backends/test_workarounds.py` checks by small programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ninetoothed import ir
from ninetoothed.dtypes import int32
from ninetoothed.expr import const, var
from ninetoothed.ir import Apply, TileType, Value

_Values = Sequence[Value]


def work_around(program: ir.Program) -> ir.Program:
    """Rewrite what Triton gets wrong."""
    return replace(program, body=_Workarounds().block(program.body))


@dataclass(kw_only=True)
class _Workarounds(ir.Rewriter):
    """Applies each rule to what those before it have made.

    found: extrema that the block at hand has found already, with their places, by what is reduced and how.
    """

    found: dict[tuple[Any, ...], tuple[Value, Value]] = field(default_factory=dict)

    def block(self, block: ir.Block) -> ir.Block:
        outer, self.found = self.found, {}
        operations = super().block(block)
        self.found = outer
        return operations

    def operation(self, operation: ir.Operation) -> ir.Block:
        block: ir.Block = (self.rebuilt(operation),)
        for rule in (self.order_nan, _keep_order, _without_unit_axes):
            block = tuple(new for each in block for new in (rule(each) if isinstance(each, Apply) else (each,)))
        return block

    def order_nan(self, operation: Apply) -> ir.Block:
        """Find the place of an extremum of floats by a function that orders NaN, too: the first NaN, as in PyTorch.

        The same reduction gives the extremum itself, where NaN is to be that. 3.6 to 3.9: the comparisons of Triton's
        own function put NaN nowhere, and threads that exchange what they have each keep the other's.
        """
        is_place = operation.function in ("argmax", "argmin")
        if not is_place and not (operation.function in ("max", "min") and operation.attribute("propagate_nan")):
            return (operation,)
        (tile,), axis, result = operation.operands, operation.attribute("axis"), operation.result
        if not tile.type.dtype.is_floating:
            return (operation,)
        key = operation.function[-3:], tile, axis
        known = self.found.get(key)
        if known is not None and known[is_place].type == result.type:
            self.values[result] = known[is_place]
            return ()
        other = Value(result.type.with_dtype(tile.type.dtype if is_place else int32))
        extremum, place = (other, result) if is_place else (result, other)
        self.found[key] = extremum, place
        axes = range(len(tile.type.lanes)) if axis is None else (axis,)
        numbers = _numbers(tile.type, axes)
        keeps, combine = bool(operation.attribute("keep_dims")), _first(key[0], tile.type)
        reduction = _applied("reduce", (tile, numbers.result), axis=axis, keep_dims=keeps, combine=combine)
        return (numbers, replace(reduction, results=(extremum, place), location=operation.location))


def _numbers(type: TileType, axes: Sequence[int]) -> ir.Index:
    """Number the lanes of a tile along some axes, in row-major order."""
    lanes, number = tuple(type.axes[axis] for axis in axes), const(0)
    for lane in lanes:
        number = number * lane.count + var(lane.name)
    return ir.Index(Value(type.with_dtype(int32)), number, lanes)


def _first(extremum: str, type: TileType) -> ir.Lambda:
    """Make the function that chooses of two: NaN before the greater or smaller, then the lesser number."""
    a, b = (Value(TileType(type.dtype), name) for name in "ab")
    i, j = (Value(TileType(int32), name) for name in "ij")

    def is_left(apply: Callable[..., Value]) -> Value:
        is_before = apply("lt", i, j)
        is_better = apply("gt" if extremum == "max" else "lt", a, b)
        is_first = apply("and", apply("eq", a, b), is_before)
        is_nan = apply("and", apply("ne", a, a), apply("or", apply("eq", b, b), is_before))
        return apply("or", apply("or", is_better, is_first), is_nan)

    return _choice(f"first_arg{extremum}", (a, i), (b, j), is_left)


def _choice(name: str, left: _Values, right: _Values, is_left: Callable[[Callable[..., Value]], Value]) -> ir.Lambda:
    """Make the function that takes all of the left or of the right. is_left: tells which by what it applies."""
    body: list[ir.Operation] = []

    def apply(function: str, *operands: Value) -> Value:
        body.append(applied := Apply.of(function, operands))
        return applied.result

    chosen = is_left(apply)
    yields = tuple(apply("where", chosen, a, b) for a, b in zip(left, right, strict=True))
    return ir.Lambda(name, (*left, *right), tuple(body), yields, is_commutative=True)


def _keep_order(operation: Apply) -> ir.Block:
    """Keep the order in reductions by functions that are not proved to be commutative, and tiles together.

    3.6 to 3.9: a thread joins elements that lie apart, and of two threads that exchange what they have, each takes its
    own for the first, so that even their results differ; a scan keeps the order. Along all axes at once each of several
    tiles may be flattened in an order of its own, and elements be joined that do not belong together.

    One axis is reduced after the other, the last first: so elements follow each other in row-major order.
    """
    if operation.function != "reduce":
        return (operation,)
    combine, axis, values = operation.attribute("combine"), operation.attribute("axis"), operation.operands
    if combine.is_commutative and (axis is not None or len(values) == 1):
        return (operation,)
    axes: Sequence[int] = (axis,)
    keeps, results = bool(operation.attribute("keep_dims")), operation.results
    block: list[ir.Operation] = []
    if axis is None:
        axes, keeps = range(len(values[0].type.lanes))[::-1], False
        results = tuple(Value(TileType(value.type.dtype), value.hint) for value in values)
    for each in axes:
        of = {"axis": each, "combine": combine, "location": operation.location}
        reduction = _applied("reduce", values, keep_dims=keeps, **of)
        reduced = replace(reduction, results=results if each == axes[-1] else reduction.results)
        if combine.is_commutative:
            block.append(reduced)
        else:
            scan = _applied("associative_scan", values, **of)
            block += (scan, *_last(scan.results, each, keeps, reduced.results))
        values = reduced.results
    if axis is None:
        block += [Apply((a,), "full", (b,)) for a, b in zip(operation.results, results, strict=True)]
    return tuple(block)


def _applied(function: str, values: tuple[Value, ...], **attributes: Any) -> Apply:
    """Apply a function that combines tiles, to tiles of their types, or to numbers."""
    return Apply.of(function, values, *(value.type.dtype for value in values), **attributes)


def _last(tiles: tuple[Value, ...], axis: int, keeps: bool, results: tuple[Value, ...]) -> ir.Block:
    """Take the last elements along an axis: those of the greatest number, whatever they hold."""
    numbers = _numbers(tiles[0].type, (axis,))
    operands = (*tiles, numbers.result)
    left, right = (tuple(Value(TileType(each.type.dtype)) for each in operands) for _ in range(2))
    combine = _choice("last", left, right, lambda apply: apply("gt", left[-1], right[-1]))
    greatest = _applied("reduce", operands, axis=axis, keep_dims=keeps, combine=combine)
    return (numbers, replace(greatest, results=(*results, greatest.results[-1])))


def _without_unit_axes(scan: Apply) -> ir.Block:
    """Scan tiles without their axes of one lane, and none along such an axis.

    3.6 cannot lower a scan where threads hold several lanes along an axis that has one.
    """
    lanes = scan.operands[0].type.lanes if scan.primitive.is_scan else ()
    if len(lanes) < 2 or 1 not in lanes:
        return (scan,)
    axis = scan.attribute("axis") % len(lanes)
    if lanes[axis] == 1:
        pairs = zip(scan.results, scan.operands, strict=True)
        return tuple(Apply((result,), "reshape", (operand,)) for result, operand in pairs)
    kept = [a for a, count in enumerate(lanes) if count > 1]
    attributes = tuple((name, kept.index(axis) if name == "axis" else value) for name, value in scan.attributes)
    operands, results = (tuple(_flat(value, kept) for value in side) for side in (scan.operands, scan.results))
    return (
        *(Apply((flat,), "reshape", (value,)) for flat, value in zip(operands, scan.operands, strict=True)),
        replace(scan, operands=operands, results=results, attributes=attributes),
        *(Apply((value,), "reshape", (flat,)) for flat, value in zip(results, scan.results, strict=True)),
    )


def _flat(value: Value, kept: list[int]) -> Value:
    lanes = tuple(value.type.lanes[axis] for axis in kept)
    return Value(TileType(value.type.dtype, tuple(map(const, lanes)), lanes), value.hint)

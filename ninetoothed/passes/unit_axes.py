"""Pass: scan tiles without their axes of one lane, and none along such an axis.

    cumsum(x, axis=0) of x[4, 1]  ->  reshape(cumsum(reshape(x, (4,)), axis=0), (4, 1))

Triton 3.6 cannot lower a scan where threads hold several lanes along an axis that has one.
"""

from __future__ import annotations

from dataclasses import replace

from ninetoothed import ir
from ninetoothed.expr import const
from ninetoothed.ir import Apply, TileType, Value


def drop(program: ir.Program) -> ir.Program:
    """Take axes of one lane from the operands of scans."""
    return replace(program, body=_Dropper().block(program.body))


class _Dropper(ir.Rewriter):
    def operation(self, operation: ir.Operation) -> ir.Block:
        if isinstance(operation, Apply) and operation.primitive.is_scan:
            lanes = operation.operands[0].type.lanes
            if len(lanes) > 1 and 1 in lanes:
                return _without_units(operation, operation.attribute("axis") % len(lanes))
        return (self.rebuilt(operation),)


def _without_units(scan: Apply, axis: int) -> ir.Block:
    if scan.operands[0].type.lanes[axis] == 1:
        pairs = zip(scan.results, scan.operands, strict=True)
        return tuple(Apply((result,), "reshape", (operand,)) for result, operand in pairs)
    kept = [a for a, count in enumerate(scan.operands[0].type.lanes) if count > 1]
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

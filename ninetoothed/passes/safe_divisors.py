"""Pass: on GPUs, divide integers by 1 instead of 0.

    y = where(z != 0, x // z, -1)   ->  divisor = where(z == 0, 1, z); y = where(z != 0, x // divisor, -1)

Dividing by 0 is undefined behaviour for LLVM in every lane, taken or not: it concludes that z is never 0, and drops the
condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ninetoothed import dtypes, ir
from ninetoothed.dtypes import DType, PointerType
from ninetoothed.expr import Facts, bounds
from ninetoothed.ir import Apply, Value
from ninetoothed.ir.lanes import is_repetition
from ninetoothed.passes.operations import producers
from ninetoothed.passes.overhang.masks import MaskBuilder

Producers = Mapping[Value, ir.Operation]


def guard(program: ir.Program) -> ir.Program | None:
    """Replace divisors of 0; None where nothing divides by what may be 0."""
    body = _Divisors(program).block(program.body)
    return None if body == program.body else replace(program, body=body)


def divides_by_zero(operation: Apply, producers: Producers, facts: Facts) -> bool:
    """Tell whether an operation divides integers by what may be 0."""
    if operation.function not in ("floordiv", "mod") or operation.result.type.dtype.is_floating:
        return False
    return _may_be_zero(operation.operands[1], producers, facts)


def _may_be_zero(value: Value, producers: Producers, facts: Facts) -> bool:
    match producers.get(_repeated(value, producers)):
        case ir.Index(expr=e):
            low, high = bounds(e, facts)
            return not ((low is not None and low > 0) or (high is not None and high < 0))
        case ir.Constant(value=number):
            return number == 0
        case Apply(function="where", operands=(condition, then, otherwise)):
            kept = {"eq": otherwise, "ne": then}
            return any(
                _may_be_zero(side, producers, facts) and not _is_compared(condition, name, side, producers)
                for name, side in kept.items()
            )
    return True


def _is_compared(condition: Value, function: str, value: Value, producers: Producers) -> bool:
    """Tell whether a condition compares a value with 0."""
    comparison = producers.get(_repeated(condition, producers))
    if not isinstance(comparison, Apply) or comparison.function != function:
        return False
    left, right = (_repeated(each, producers) for each in comparison.operands)
    zero = producers.get(right)
    return left is _repeated(value, producers) and isinstance(zero, ir.Constant) and zero.value == 0


def _repeated(value: Value, producers: Producers) -> Value:
    """Return the value whose numbers a value repeats, or holds in a wider type."""
    while isinstance(producer := producers.get(value), Apply):
        is_widened = producer.function == "cast" and _widens(producer.operands[0].type.dtype, value.type.dtype)
        if not is_widened and not is_repetition(producer):
            break
        (value,) = producer.operands
    return value


def _widens(dtype: DType | PointerType, result: DType | PointerType) -> bool:
    return dtype.is_integer and result.is_integer and result.bits >= dtype.bits


class _Divisors(ir.Rewriter):
    """Rewrites divisions. guarded: what stands in for divisors, in the blocks that are open."""

    def __init__(self, program: ir.Program) -> None:
        super().__init__()
        self.facts, self.producers = program.facts, producers(program.body)
        self.guarded: dict[Value, Value] = {}

    def block(self, block: ir.Block) -> ir.Block:
        outer = dict(self.guarded)
        operations = super().block(block)
        self.guarded = outer
        return operations

    def operation(self, operation: ir.Operation) -> ir.Block:
        if not isinstance(operation, Apply):
            return (self.rebuilt(operation),)
        if isinstance(combine := operation.attribute("combine"), ir.Lambda):
            self.producers |= producers(combine.body)
            pairs = {**dict(operation.attributes), "combine": self.function(combine)}
            is_same = pairs["combine"] == combine
            return (operation if is_same else replace(operation, attributes=tuple(pairs.items())),)
        if not divides_by_zero(operation, self.producers, self.facts):
            return (operation,)
        builder, (dividend, divisor) = MaskBuilder(self.facts, dtypes.int32, operation.location), operation.operands
        with builder.block() as operations:
            if divisor not in self.guarded:
                zero, one = (builder.number(number, divisor.type) for number in (0, 1))
                is_zero = builder.together("eq", divisor, zero, dtypes.int1)
                self.guarded[divisor] = Value(divisor.type, "divisor")
                builder.emit(Apply((self.guarded[divisor],), "where", (is_zero, one, divisor)))
        return (*operations, replace(operation, operands=(dividend, self.guarded[divisor])))

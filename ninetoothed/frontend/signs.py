"""Prove that computed integers are not negative."""

from __future__ import annotations

from collections.abc import Mapping

from ninetoothed import ir
from ninetoothed.expr import Expr, Facts, bounds
from ninetoothed.frontend.numbers import covers, numeric
from ninetoothed.ir import Apply, Constant, Index, Value
from ninetoothed.ir.traversal import bottom_up
from ninetoothed.language.primitive import Sign


class Signs:
    """Remember which values are known not to be negative. producers: the operations that compute values."""

    def __init__(self, producers: Mapping[Value, ir.Operation]) -> None:
        self._producers = producers
        self._nonnegative: dict[Value, bool] = {}

    def is_nonnegative(self, operand: Value | Expr | float, facts: Facts) -> bool:
        """Tell whether an integer is known not to be negative."""
        if isinstance(operand, Value):
            return bottom_up(operand, self._nonnegative, self._bounding, lambda value: self._decide(value, facts))
        if isinstance(operand, Expr):
            lower, _ = bounds(operand, facts)
            return lower is not None and lower >= 0
        return operand >= 0

    def _bounding(self, value: Value) -> tuple[Value, ...]:
        """Return the operands whose signs decide that of a value: if none is negative, nor is it."""
        producer = self._producers.get(value)
        if isinstance(producer, Apply) and _keeps_sign(producer) and value.type.dtype.category != "uint":
            return producer.operands
        return ()

    def _decide(self, value: Value, facts: Facts) -> bool:
        operands = self._bounding(value)
        producer = self._producers.get(value)
        if operands or value.type.dtype.category == "uint":
            signs = [self._nonnegative[operand] for operand in operands]
            return any(signs) if operands and _is_maximum(producer) else all(signs)
        if isinstance(producer, Constant):
            return producer.value >= 0
        return isinstance(producer, Index) and self.is_nonnegative(producer.expr, facts)


def _is_maximum(operation: ir.Operation | None) -> bool:
    """Tell whether a result is at least each of its operands."""
    return isinstance(operation, Apply) and operation.function == "maximum" and len(operation.operands) > 1


def _keeps_sign(operation: Apply) -> bool:
    """Tell whether a result cannot be negative if no operand is."""
    match operation.primitive.sign:
        case Sign.CONVERTED:
            return covers(numeric(operation.result.type.dtype), numeric(operation.operands[0].type.dtype))
        case Sign.GROWING:  # types of indices are taken not to overflow; smaller ones wrap
            return operation.result.type.dtype.bits >= 32
        case sign:
            return sign is Sign.KEPT

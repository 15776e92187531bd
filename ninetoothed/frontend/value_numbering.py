"""Number values: those that are computed alike get one number, so that equal indices get one name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ninetoothed import ir
from ninetoothed.ir import Apply, Constant, Index, Value
from ninetoothed.ir.traversal import bottom_up
from ninetoothed.language.primitive import Effect


class ValueNumbering:
    """Remember which values come from the same operations on the same values. producers: what computes each value."""

    def __init__(self, producers: Mapping[Value, ir.Operation]) -> None:
        self._producers = producers
        self._first: dict[Value, Value] = {}
        self._by_computation: dict[tuple[Any, ...], Value] = {}

    def first(self, value: Value) -> Value:
        """Return the first of the values that are computed as this one is."""
        return bottom_up(value, self._first, self._inputs, self._number)

    def _inputs(self, value: Value) -> tuple[Value, ...]:
        producer = self._producers.get(value)
        return producer.operands if isinstance(producer, Apply) and _is_repeatable(producer) else ()

    def _number(self, value: Value) -> Value:
        computation: tuple[Any, ...]
        match self._producers.get(value):
            case Apply(results=results) as apply if _is_repeatable(apply):
                operands = tuple(self._first[operand] for operand in apply.operands)
                computation = (apply.function, apply.attributes, results.index(value), operands)
            case Index(expr=expr, lanes=lanes, bindings=bindings):
                computation = (expr, lanes, bindings)
            case Constant(value=number):
                computation = (repr(number),)
            case _:
                return value
        return self._by_computation.setdefault((value.type, *computation), value)


def _is_repeatable(operation: Apply) -> bool:
    primitive = operation.primitive
    return primitive.effect is Effect.NONE and (primitive.is_elementwise or primitive.moves_lanes)

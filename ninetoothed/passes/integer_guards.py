"""Pass: on GPUs, give operations on integers results where LLVM leaves these undefined, those that a CPU gives.

    y = where(z != 0, x // z, -1)   ->  divisor = where(z == 0, 1, z); y = where(z != 0, x // divisor, -1)
    y = x << z                      ->  y = where(z >= 0 and z < bits, x << z, 0)
    y = x >> z                      ->  y = x >> where(z >= 0 and z < bits, z, bits - 1)

Dividing by 0 is undefined behaviour in every lane, taken or not: LLVM concludes that z is never 0, and drops the
condition. What a shift gives by as many bits as there are, or more, is anything once the distance is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ninetoothed import dtypes, ir
from ninetoothed.dtypes import DType, PointerType
from ninetoothed.expr import Facts, bounds
from ninetoothed.ir import Apply, Value
from ninetoothed.ir.lanes import is_repetition, with_lanes
from ninetoothed.passes.operations import producers
from ninetoothed.passes.overhang.masks import MaskBuilder

Producers = Mapping[Value, ir.Operation]
Interval = tuple[float | None, float | None]


def guard(program: ir.Program) -> ir.Program:
    """Guard divisions and shifts that may be undefined."""
    return replace(program, body=_Guards(program).block(program.body))


def divides_by_zero(operation: Apply, producers: Producers, facts: Facts) -> bool:
    """Tell whether an operation divides integers by what may be 0."""
    if operation.function not in ("floordiv", "mod") or operation.result.type.dtype.is_floating:
        return False
    return _may_be_zero(operation.operands[1], producers, facts)


def _may_be_zero(value: Value, producers: Producers, facts: Facts) -> bool:
    producer = producers.get(_repeated(value, producers))
    if isinstance(producer, Apply) and producer.function == "where":
        condition, then, otherwise = producer.operands
        return any(
            _may_be_zero(side, producers, facts) and not _is_compared(condition, name, side, producers)
            for name, side in (("eq", otherwise), ("ne", then))
        )
    low, high = _bounds(value, producers, facts)
    return not ((low is not None and low > 0) or (high is not None and high < 0))


def _bounds(value: Value, producers: Producers, facts: Facts) -> Interval:
    """Bound a number, as far as its type or what computes it tells."""
    dtype = value.type.dtype
    assert isinstance(dtype, DType), "nothing is divided or shifted by pointers"
    match producers.get(_repeated(value, producers)):
        case ir.Index(expr=e, lanes=lanes):
            return bounds(e, with_lanes(facts, lanes))
        case ir.Constant(value=number):
            return number, number
        case Apply(function="add" | "mul" | "and" | "mod" as function, operands=operands):
            found = _interval(function, *(_bounds(operand, producers, facts) for operand in operands))
            if found is not None and dtype.range[0] <= found[0] <= found[1] <= dtype.range[1]:
                return found
    return (0 if dtype.category == "uint" else None), None


def _interval(function: str, a: Interval, b: Interval) -> tuple[float, float] | None:
    """Bound a result by the bounds of its operands; None where they tell too little."""
    masks = [high for low, high in (a, b) if low is not None and low >= 0 and high is not None]
    if function == "and" and masks:
        return 0, min(masks)
    if function == "mod" and b[0] is not None and b[0] > 0 and b[1] is not None:
        return 0, b[1] - 1
    if a[0] is None or a[1] is None or b[0] is None or b[1] is None:
        return None
    if function == "add":
        return a[0] + b[0], a[1] + b[1]
    return (a[0] * b[0], a[1] * b[1]) if function == "mul" and a[0] >= 0 <= b[0] else None


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
    if (
        isinstance(dtype, PointerType)
        or isinstance(result, PointerType)
        or not (dtype.is_integer and result.is_integer)
    ):
        return False
    return result.range[0] <= dtype.range[0] and dtype.range[1] <= result.range[1]


class _Guards(ir.Rewriter):
    """Rewrites divisions and shifts. divisors: what stands in for others, in the blocks that are open."""

    def __init__(self, program: ir.Program) -> None:
        super().__init__()
        self.facts, self.producers = program.facts, producers(program.body)
        self.divisors: dict[Value, Value] = {}

    def block(self, block: ir.Block) -> ir.Block:
        outer = dict(self.divisors)
        operations = super().block(block)
        self.divisors = outer
        return operations

    def operation(self, operation: ir.Operation) -> ir.Block:
        if not isinstance(operation, Apply):
            return (self.rebuilt(operation),)
        if isinstance(combine := operation.attribute("combine"), ir.Lambda):
            self.producers |= producers(combine.body)
            pairs = {**dict(operation.attributes), "combine": self.function(combine)}
            is_same = pairs["combine"] == combine
            return (operation if is_same else replace(operation, attributes=tuple(pairs.items())),)
        builder = MaskBuilder(self.facts, dtypes.int32, operation.location)
        with builder.block() as operations:
            if divides_by_zero(operation, self.producers, self.facts):
                dividend, divisor = operation.operands
                operation = replace(operation, operands=(dividend, self._divisor(builder, divisor)))
            elif operation.function in ("lshift", "rshift"):
                operation = self._shift(builder, operation)
        return (*operations, operation)

    def _divisor(self, builder: MaskBuilder, divisor: Value) -> Value:
        if divisor not in self.divisors:
            zero, one = (builder.number(number, divisor.type) for number in (0, 1))
            is_zero = builder.together("eq", divisor, zero)
            self.divisors[divisor] = Value(divisor.type, "divisor")
            builder.emit(Apply((self.divisors[divisor],), "where", (is_zero, one, divisor)))
        return self.divisors[divisor]

    def _shift(self, builder: MaskBuilder, operation: Apply) -> Apply:
        """Guard a shift; the operation that now gives its result."""
        shifted, distance = operation.operands
        type = distance.type
        low, high = _bounds(distance, self.producers, self.facts)
        last = type.dtype.bits - 1
        tests = [("ge", 0)] if low is None or low < 0 else []
        tests += [("le", last)] if high is None or high > last else []
        within = None
        for function, number in tests:
            test = builder.together(function, distance, builder.number(number, type))
            within = test if within is None else builder.together("and", within, test)
        if within is None:
            return operation
        if operation.function == "rshift" and type.dtype.category == "int":
            chosen = builder.choice(within, distance, builder.number(last, type))
            return replace(operation, operands=(shifted, chosen))
        result = builder.apply(operation.function, (shifted, distance), operation.result.type.dtype)
        return replace(operation, function="where", operands=(within, result, builder.number(0, type)), attributes=())

"""Pass: replace `exp` of float32 by `exp2`, an instruction of its own; log2(e) goes into a factor already there.

    weights = exp(x * c - b)                          c: one number; b: of fewer elements than x
->  weights = exp2(x * (c * log2e) - b * log2e)       one FMA for each element; b = m * c becomes m * (c * log2e)

    weights = exp(x * c); decay = exp(a * c - b * c)
->  weights = exp2(x * (c * log2e)); decay = exp2((a - b) * (c * log2e))

The second comes out as 1 where a and b are equal. As a product and an FMA it would be off by the rounding of one of
them, each time that an online softmax takes in a block with no new peak: errors add up.

    weights = exp(x - b)
->  weights = exp2((x - b) * log2e)

Here the difference comes first: x may be a sum with a mask, which often holds the lowest finite number, and that has no
multiple. So it is where `where` puts such a number into a product; a product by such a number keeps `exp`. Triton
multiplies as well, and takes three instructions more for results below 2^-126; next to a peak's they are nothing, and
are 0 here. Any other argument keeps `exp`, and such results.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from ninetoothed import ir
from ninetoothed.dtypes import float32
from ninetoothed.ir.lanes import is_repetition
from ninetoothed.passes.operations import Inserter, producers, unrepeated

LOG2_E = math.log2(math.e)
# Numbers from here on may have no finite multiple.
HUGE = 2.0**127


def to_base_two(program: ir.Program) -> ir.Program:
    """Compute powers of two where exponents are products by a number, or differences."""
    scaled = _ScaledValues(producers(program.body))
    foldable = [o for o in ir.walk(program.body) if isinstance(o, ir.Apply) and scaled.is_foldable(o)]
    new: dict[ir.Operation, ir.Operation] = {
        o: replace(o, function="exp2", operands=(scaled.scaled(o.operands[0]),)) for o in foldable
    }
    inserter = Inserter(instead=new, after=scaled.after)
    return replace(program, body=(*scaled.first, *inserter.block(program.body)))


@dataclass
class _ScaledValues:
    """Multiplies values by log2(e), each once, as close to its definition as can be.

    first: operations that begin the program. after: operations that follow the definition of a value. known: the
    multiples that there are, by the value or by the name of the argument.
    """

    producers: dict[ir.Value, ir.Operation]
    first: list[ir.Operation] = field(default_factory=list)
    after: dict[ir.Value, list[ir.Operation]] = field(default_factory=dict)
    known: dict[ir.Value | str, ir.Value] = field(default_factory=dict)

    def is_foldable(self, operation: ir.Apply) -> bool:
        """Tell whether an operation is an `exp` whose exponent takes in log2(e)."""
        if operation.function != "exp":
            return False
        exponent = unrepeated(operation.operands[0], self.producers)
        if exponent.type.dtype != float32 or exponent.type.is_scalar:
            return False
        producer = self.producers.get(exponent)
        is_difference = isinstance(producer, ir.Apply) and producer.function == "sub"
        return is_difference or self.factors(exponent) is not None

    def number(self, value: ir.Value) -> ir.Value | str | int | float | None:
        """Return a key that tells one scalar from another; None for a tile, and for 1 and huge numbers."""
        value = unrepeated(value, self.producers)
        if not value.type.is_scalar:
            return None
        match self.producers.get(value):
            case ir.Constant(value=number):
                return None if number == 1 or self.is_huge(value) else number
            case ir.ScalarArgument(parameter=parameter):
                return parameter
        return value

    def factors(self, value: ir.Value) -> tuple[ir.Value, ir.Value] | None:
        """Return a tile and a number whose product a value is; None for any other."""
        match self.producers.get(value):
            case ir.Apply(function="mul", operands=(a, b)):
                for tile, number in ((a, b), (b, a)):
                    if not unrepeated(tile, self.producers).type.is_scalar and self.number(number) is not None:
                        return tile, number
        return None

    def is_fused(self, a: ir.Value, b: ir.Value, whole: ir.Value) -> bool:
        """Tell whether a difference is one of a product and something smaller, both of which have multiples."""
        factors = self.factors(unrepeated(a, self.producers))
        is_smaller = math.prod(unrepeated(b, self.producers).type.lanes) < math.prod(whole.type.lanes)
        return factors is not None and is_smaller and not self.is_huge(factors[0])

    def is_huge(self, value: ir.Value) -> bool:
        """Tell whether a value is, or a mask puts in its place, a huge finite number."""
        match self.producers.get(unrepeated(value, self.producers)):
            case ir.Constant(value=number):
                return HUGE <= abs(number) < math.inf
            case ir.Apply(function="where", operands=(_, chosen, other)):
                return self.is_huge(chosen) or self.is_huge(other)
        return False

    def scaled(self, value: ir.Value) -> ir.Value:
        """Return a value times log2(e)."""
        producer = self.producers.get(value)
        is_argument = isinstance(producer, ir.ScalarArgument)
        key = producer.parameter if isinstance(producer, ir.ScalarArgument) else value
        if key not in self.known:
            operations = self.product(value, producer)
            (self.known[key],) = ir.results(operations[-1])
            place = self.first if is_argument else self.after.setdefault(value, [])
            place += operations
        return self.known[key]

    def product(self, value: ir.Value, producer: ir.Operation | None) -> list[ir.Operation]:
        """Return the operations that make a value times log2(e), the result of the last one."""
        result = ir.Value(value.type, value.hint and f"{value.hint}_log2e")
        match producer:
            case ir.Constant(value=number):
                return [ir.Constant(result, number * LOG2_E)]
            case ir.ScalarArgument():
                argument = ir.Value(value.type)
                return [replace(producer, result=argument), *_times_log2e(argument, result)]
            case ir.Apply(operands=(operand,)) if is_repetition(producer):
                return [replace(producer, results=(result,), operands=(self.scaled(operand),))]
            case ir.Apply(function="mul", operands=operands) if factors := self.factors(value):
                operands = tuple(self.scaled(v) if v is factors[1] else v for v in operands)
                return [replace(producer, results=(result,), operands=operands)]
            case ir.Apply(function="sub", operands=(a, b)) if self.is_fused(a, b, value):
                return [replace(producer, results=(result,), operands=(self.scaled(a), self.scaled(b)))]
            case ir.Apply(function="sub", operands=(a, b)) if factor := self.common(a, b):
                difference = ir.Value(value.type)
                operands = tuple(factors[0] for v in (a, b) if (factors := self.factors(v)) is not None)
                return [
                    replace(producer, results=(difference,), operands=operands),
                    ir.Apply((result,), "mul", (difference, self.scaled(factor))),
                ]
        return _times_log2e(value, result)

    def common(self, a: ir.Value, b: ir.Value) -> ir.Value | None:
        """Return the number that is a factor of both."""
        first, second = self.factors(a), self.factors(b)
        if first and second and self.number(first[1]) == self.number(second[1]):
            return first[1]
        return None


def _times_log2e(value: ir.Value, result: ir.Value) -> list[ir.Operation]:
    number = ir.Value(ir.TileType(float32))
    factor = number if value.type.is_scalar else ir.Value(value.type)
    full = [] if factor is number else [ir.Apply((factor,), "full", (number,))]
    return [ir.Constant(number, LOG2_E), *full, ir.Apply((result,), "mul", (value, factor))]

"""Pass: assert, on a CPU, that no integer is divided by zero, which PyTorch refuses and GPUs leave open.

    q = x // z                      ->  assert z != 0; q = x // z
    y = where(z > 0, x // z, 0)     ->  q = x // z; assert z != 0 or not z > 0; y = where(z > 0, q, 0)
    store(y[i], x // z)             ->  q = x // z; assert z != 0 or not (0 <= i < n); store(y[i], q)

`overhang`, which comes after it, leaves overhang out of assertions.
"""

from __future__ import annotations

from dataclasses import replace

from ninetoothed import dtypes, ir
from ninetoothed.expr import bounds
from ninetoothed.ir import Apply, Value
from ninetoothed.passes.operations import is_repetition, producers
from ninetoothed.passes.overhang.masks import MaskBuilder

MESSAGE = "integers are divided by zero; choose what that gives, with `ntl.where(z != 0, x // z, other)`"


def assert_none(program: ir.Program) -> ir.Program | None:
    """Add the assertions; None where nothing divides by what may be 0."""
    body = _Divisions(program).block(program.body)
    return None if body == program.body else replace(program, body=body)


# An operation that takes some lanes of a quotient, and whether they are those inside its mask.
Taker = tuple[ir.Operation, bool]


class _Divisions(ir.Rewriter):
    def __init__(self, program: ir.Program) -> None:
        super().__init__()
        self.facts, self.producers = program.facts, producers(program.body)
        wide = any(parameter.wide for parameter in program.parameters)
        self.index_type = dtypes.int64 if wide else dtypes.int32
        self.readers: dict[Value, list[ir.Operation]] = {}
        for operation in ir.walk(program.body):
            for value in ir.operands(operation):
                self.readers.setdefault(value, []).append(operation)

    def block(self, block: ir.Block) -> ir.Block:
        """Add an assertion before each division, or before the last operation that takes lanes of it."""
        operations: list[ir.Operation] = []
        due: dict[ir.Operation, list[Apply]] = {}
        for operation in block:
            if isinstance(operation, Apply) and self._may_fail(operation):
                takers = self._takers(operation.result)
                if takers is None or any(taker not in block for taker, _ in takers):
                    operations += self._assertion(operation, [])
                elif takers:
                    last = max((taker for taker, _ in takers), key=block.index)
                    due.setdefault(last, []).append(operation)
            for division in due.get(operation, ()):
                operations += self._assertion(division, self._takers(division.result) or [])
            operations += self.operation(operation)
        return tuple(operations)

    def _may_fail(self, operation: Apply) -> bool:
        """Tell whether an operation divides integers by what may be 0."""
        if operation.function not in ("floordiv", "mod") or operation.result.type.dtype.is_floating:
            return False
        producer = self.producers.get(operation.operands[1])
        while isinstance(producer, Apply) and (is_repetition(producer) or producer.function == "cast"):
            producer = self.producers.get(producer.operands[0])
        if isinstance(producer, ir.Index):
            low, high = bounds(producer.expr, self.facts)
            return not ((low is not None and low > 0) or (high is not None and high < 0))
        return not isinstance(producer, ir.Constant) or producer.value == 0

    def _takers(self, value: Value) -> list[Taker] | None:
        """Return the operations that take some lanes of a value, or of what is computed of it; None: all count."""
        found: list[Taker] = []
        for reader in self.readers.get(value, ()):
            is_inside = _takes(reader, value)
            if is_inside is not None:
                found.append((reader, is_inside))
                continue
            is_map = isinstance(reader, Apply) and reader.primitive.is_map and reader.function != "where"
            further = self._takers(reader.result) if isinstance(reader, Apply) and is_map else None
            if further is None:
                return None
            found += further
        return found

    def _assertion(self, division: Apply, takers: list[Taker]) -> list[ir.Operation]:
        """Assert that the divisor is not 0 in the lanes that some taker takes, or in all."""
        divisor = division.operands[1]
        builder = MaskBuilder(self.facts, self.index_type, division.location)
        with builder.block() as operations:
            holds = builder.together("ne", divisor, builder.number(0, divisor.type), dtypes.int1)
            left = None
            for taker, is_inside in takers:
                mask = _mask(builder, taker)
                mask = builder.apply("invert", (mask,), mask.type) if is_inside else mask
                left = mask if left is None else builder.together("and", left, mask, dtypes.int1)
            holds = holds if left is None else builder.together("or", holds, left, dtypes.int1)
            operations.append(Apply((), "device_assert", (holds,), (("message", MESSAGE),), location=division.location))
        return operations


def _takes(reader: ir.Operation, value: Value) -> bool | None:
    """Tell whether a reader takes the lanes of a value inside its mask (True), outside it (False), or all (None)."""
    match reader:
        case Apply(function="where", operands=(condition, then, otherwise)) if then is not otherwise:
            return None if condition is value else then is value
        case Apply(operands=(pointers, *_, mask)) if reader.primitive.is_masked and reader.primitive.effect.writes:
            is_used = mask is not value and pointers is not value and mask.type.dtype == dtypes.int1
            return True if is_used else None
        case ir.Store(access=access) if access.guards:
            return None if any(bound is value for _, bound in access.bindings) else True
    return None


def _mask(builder: MaskBuilder, taker: ir.Operation) -> Value:
    """Return the mask of an operation that takes some lanes."""
    if isinstance(taker, ir.Store):
        return _in_bounds(builder, taker.access)
    assert isinstance(taker, Apply)
    return taker.operands[0] if taker.function == "where" else taker.operands[-1]


def _in_bounds(builder: MaskBuilder, access: ir.Access) -> Value:
    """Return the mask of the elements of an access that are in bounds."""
    mask = None
    for guard in access.guards:
        limits = [("lt", guard.index - guard.size)] if guard.upper else []
        limits += [("ge", guard.index)] if guard.lower else []
        for function, expr in limits:
            index = builder.stretched(builder.index(expr, access.lanes, access.bindings, access.type), access.type)
            inside = builder.together(function, index, builder.number(0, index.type), dtypes.int1)
            mask = inside if mask is None else builder.together("and", mask, inside, dtypes.int1)
    assert mask is not None, "the access has guards"
    return mask

"""Pass: assert, on a CPU, that no integer is divided by zero, which PyTorch refuses and GPUs leave open.

    q = x // z                      ->  assert z != 0; q = x // z
    y = where(z > 0, x // z, 0)     ->  q = x // z; assert z != 0 or not z > 0; y = where(z > 0, q, 0)
    store(y[i], x // z)             ->  q = x // z; assert z != 0 or not (0 <= i < n); store(y[i], q)
    q = x // z; if c: y = f(q)      ->  if c: assert z != 0; q = x // z; y = f(q)

`overhang`, which comes after it, leaves overhang out of assertions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ninetoothed import dtypes, ir
from ninetoothed.ir import Apply, Value
from ninetoothed.language.primitive import Effect
from ninetoothed.passes.integer_guards import divides_by_zero
from ninetoothed.passes.operations import producers
from ninetoothed.passes.overhang.masks import MaskBuilder

MESSAGE = "integers are divided by zero; choose what that gives, with `ntl.where(z != 0, x // z, other)`"


def assert_none(program: ir.Program) -> ir.Program:
    """Add an assertion for each division by what may be 0, in the branch that alone takes its result."""
    defined_by = producers(program.body)
    applied = (each for each in defined_by.values() if isinstance(each, Apply))
    if not any(divides_by_zero(each, defined_by, program.facts) for each in applied):
        return program
    program = replace(program, body=_sunk(program.body))
    return replace(program, body=_Divisions(program).block(program.body))


def _sunk(block: ir.Block) -> ir.Block:
    """Move what is computed lane by lane for one side of one branch alone into that side."""
    sides: dict[Value, set[tuple[ir.Operation, int] | None]] = {}
    moved: dict[tuple[ir.Operation, int], list[ir.Operation]] = {}
    kept: list[ir.Operation] = []
    for operation in reversed(block):
        read = set().union(*(sides.get(value, set()) for value in ir.results(operation)))
        side = read.pop() if len(read) == 1 and isinstance(operation, Apply) and _is_plain(operation) else None
        (kept if side is None else moved.setdefault(side, [])).append(operation)
        for value in ir.operands(operation):
            sides.setdefault(value, set()).add(side)
        for number, nested in enumerate(ir.blocks(operation)):
            within = (operation, number) if isinstance(operation, ir.If) else None
            for value in (value for each in ir.walk(nested) for value in ir.operands(each)):
                sides.setdefault(value, set()).add(within)
    return tuple(_with_moved(operation, moved) for operation in reversed(kept))


def _with_moved(operation: ir.Operation, moved: Mapping[tuple[ir.Operation, int], list[ir.Operation]]) -> ir.Operation:
    """Put what was moved to the beginning of the sides of a branch; go on in nested blocks."""
    if isinstance(operation, ir.If):
        sides = ((*reversed(moved.get((operation, i), ())), *each) for i, each in enumerate(ir.blocks(operation)))
        then_body, else_body = map(_sunk, sides)
        return replace(operation, then_body=then_body, else_body=else_body)
    return replace(operation, body=_sunk(operation.body)) if isinstance(operation, ir.Loop) else operation


def _is_plain(operation: Apply) -> bool:
    return operation.primitive.effect is Effect.NONE and operation.primitive.is_map


# An operation that takes some lanes of a quotient, and whether they are those inside its mask.
Taker = tuple[ir.Operation, bool]


@dataclass(frozen=True)
class _Taken:
    """The operations of a block that take some lanes of a value, and where the last mask is known that they need."""

    takers: dict[Taker, None]
    last: int


# Of the values of a block: what takes some of their lanes; None where all lanes count.
Lanes = Mapping[Value, _Taken | None]


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
        divisions = (each for each in block if isinstance(each, Apply))
        failing = [each for each in divisions if divides_by_zero(each, self.producers, self.facts)]
        lanes = self._lanes(block) if failing else {}
        due: dict[ir.Operation, list[Apply]] = {}
        for division in failing:
            taken = lanes[division.result]
            if taken is None or taken.takers:
                due.setdefault(division if taken is None else block[taken.last], []).append(division)
        operations: list[ir.Operation] = []
        for operation in block:
            for division in due.get(operation, ()):
                operations += self._assertion(division, lanes)
            operations += self.operation(operation)
        return tuple(operations)

    def _lanes(self, block: ir.Block) -> Lanes:
        """Find what takes some lanes of the values of a block, from its end."""
        places, lanes = {operation: place for place, operation in enumerate(block)}, dict[Value, _Taken | None]()
        for operation in reversed(block):
            for value in ir.results(operation):
                lanes[value] = self._taken(value, places, lanes)
        return lanes

    def _taken(self, value: Value, places: Mapping[ir.Operation, int], lanes: Lanes) -> _Taken | None:
        """Find what takes some lanes of a value, or of what is computed of it."""
        takers, last = dict[Taker, None](), -1
        for reader in dict.fromkeys(self.readers.get(value, ())):
            if reader not in places:
                return None
            further = _further(reader, lanes)
            is_inside = _takes(reader, value)
            if is_inside is not None:
                takers[reader, is_inside] = None
                last = max(last, places[reader])
            elif further is not None and isinstance(reader, Apply) and reader.function != "where":
                takers |= further.takers
            else:
                return None
            last = last if further is None else max(last, further.last)
        return _Taken(takers, last)

    def _assertion(self, division: Apply, lanes: Lanes) -> list[ir.Operation]:
        """Assert that the divisor is not 0 in the lanes that count."""
        divisor = division.operands[1]
        builder = MaskBuilder(self.facts, self.index_type, division.location)
        with builder.block() as operations:
            holds = builder.together("ne", divisor, builder.number(0, divisor.type))
            left = _left(builder, lanes[division.result], lanes, {})
            holds = holds if left is None else builder.together("or", holds, left)
            operations.append(Apply((), "device_assert", (holds,), (("message", MESSAGE),), location=division.location))
        return operations


def _left(builder: MaskBuilder, taken: _Taken | None, lanes: Lanes, known: dict[Taker, Value]) -> Value | None:
    """Return the mask of the lanes that no taker takes, or of which nothing takes what it makes; None: all count."""
    left = None
    for taker in () if taken is None else taken.takers:
        if taker not in known:
            operation, is_inside = taker
            mask = _mask(builder, operation)
            mask = builder.apply("invert", (mask,)) if is_inside else mask
            later = _left(builder, _further(operation, lanes), lanes, known)
            known[taker] = mask if later is None else builder.together("or", mask, later)
        left = known[taker] if left is None else builder.together("and", left, known[taker])
    return left


def _further(operation: ir.Operation, lanes: Lanes) -> _Taken | None:
    """Return what takes some lanes of what an operation computes lane by lane; None for any other, too."""
    return lanes[operation.result] if isinstance(operation, Apply) and operation.primitive.is_map else None


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
            inside = builder.together(function, index, builder.number(0, index.type))
            mask = inside if mask is None else builder.together("and", mask, inside)
    assert mask is not None, "the access has guards"
    return mask

"""The executable grammar of programs, on which backends rely. A violation is a bug of ours, never the user's."""

from __future__ import annotations

from ninetoothed import ir
from ninetoothed.dtypes import int1
from ninetoothed.language.primitives import PRIMITIVES


def verify(program: ir.Program) -> None:
    """Check that every value is defined before its use and every operation is typed as its class demands."""
    assert len(program.grid) == len(program.axes)
    names = {parameter.name for parameter in program.parameters}
    assert len(names) == len(program.parameters), "parameters of one name"
    _block(program.body, set(), program)


def _block(block: ir.Block, defined: set[ir.Value], program: ir.Program) -> set[ir.Value]:
    defined = set(defined)
    for operation in block:
        for value in ir.reads(operation):
            assert value in defined, f"{ir.print_operation(operation)} reads a value that is not defined before it"
        _typed(operation, program)
        _nested(operation, defined, program)
        defined |= set(ir.results(operation))
    return defined


def _nested(operation: ir.Operation, defined: set[ir.Value], program: ir.Program) -> None:
    """Check the blocks of an operation: what they read is defined, and what they yield fits."""
    match operation:
        case ir.Loop():
            if isinstance(operation, ir.While):
                assert operation.condition.type == ir.TileType(int1), "a loop's condition is one int1"
            _all_in(operation.yields, _block(operation.body, defined | set(operation.arguments), program))
            _alike(operation.initial, operation.arguments, operation.yields, operation.results)
            if isinstance(operation, ir.For) and (merge := operation.merge) is not None:
                count = len(operation.results)
                _all_in(merge.yields, _block(merge.body, defined | set(merge.arguments), program))
                _alike(merge.arguments[:count], merge.arguments[count:], merge.yields, operation.results)
        case ir.If():
            assert operation.condition.type == ir.TileType(int1), "a branch's condition is one int1"
            _all_in(operation.then_yields, _block(operation.then_body, defined, program))
            _all_in(operation.else_yields, _block(operation.else_body, defined, program))
            _alike(operation.then_yields, operation.else_yields, operation.results)
        case ir.Apply() if isinstance(operation.attribute("combine"), ir.Lambda):
            combine = operation.attribute("combine")
            _combines(operation, combine)
            assert not any(isinstance(inner, ir.If) for inner in ir.walk(combine.body)), "a combining function branches"
            _all_in(combine.yields, _block(combine.body, set(combine.arguments), program))


def _combines(operation: ir.Apply, combine: ir.Lambda) -> None:
    """Check that a combining function takes the elements of both sides, and gives those of one."""
    sides = [value.type.dtype for value in operation.operands]
    taken, given = ([value.type.dtype for value in values] for values in (combine.arguments, combine.yields))
    assert taken == 2 * sides and given == sides, f"a combining function of {sides} makes {given} of {taken}"


def _all_in(values: tuple[ir.Value, ...], defined: set[ir.Value]) -> None:
    assert all(value in defined for value in values), "a block yields a value that it does not define"


def _alike(*groups: tuple[ir.Value, ...]) -> None:
    """Check that loop-carried values keep their element type and physical shape."""
    for values in zip(*groups, strict=True):
        types = {(value.type.dtype, value.type.lanes) for value in values}
        assert len(types) == 1, f"a carried value changes its type: {types}"


def _typed(operation: ir.Operation, program: ir.Program) -> None:
    """Check the types of an operation."""
    for value in ir.results(operation):
        assert all(n & (n - 1) == 0 and n > 0 for n in value.type.lanes), (
            f"lanes {value.type.lanes} are no powers of two"
        )
    match operation:
        case ir.Constant(result=result):
            assert result.type.is_scalar
        case ir.Index(result=result, lanes=lanes):
            assert all(result.type.lanes[lane.axis] == lane.count for lane in lanes)
        case ir.Load(result=result, access=access):
            assert result.type == access.type
            _access(access, program)
        case ir.Store(access=access, value=value):
            assert (value.type.dtype, value.type.lanes) == (access.type.dtype, access.type.lanes), (
                "a store converts nothing"
            )
            _access(access, program)
        case ir.Apply():
            _primitive(operation)


def _access(access: ir.Access, program: ir.Program) -> None:
    parameter = program.parameter(access.parameter)
    assert parameter.role == "tensor" and len(access.indices) == len(parameter.strides)
    assert all(access.type.lanes[lane.axis] == lane.count for lane in access.lanes)


def _primitive(operation: ir.Apply) -> None:
    """Check an application against its row: attributes, types, and lanes."""
    primitive = PRIMITIVES.get(operation.function)
    assert primitive is not None, f"`{operation.function}` is no primitive"
    operands, results = ([value.type for value in values] for values in (operation.operands, operation.results))
    refusal = primitive.refusal(operands, results, dict(operation.attributes))
    assert refusal is None, refusal

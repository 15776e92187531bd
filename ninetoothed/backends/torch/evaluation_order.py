"""The order in which the operations of a program run, and how long their values live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ninetoothed import ir
from ninetoothed.language.primitive import Effect

Step = tuple[ir.Operation, tuple[ir.Value, ...]]


@dataclass(frozen=True, eq=False)
class EvaluationOrder:
    """The operations in the order in which they run.

    common: operations whose results are the same in all programs and iterations; they run once a call.
    steps: for each block, by its `id`, the other operations, each with the values that nothing reads after it.
    free: for each control operation, the values that its blocks read from outside.
    """

    common: ir.Block
    steps: Mapping[int, tuple[Step, ...]]
    free: Mapping[ir.Operation, tuple[ir.Value, ...]]


def make_order(body: ir.Block, integers: frozenset[str]) -> EvaluationOrder:
    """Order the operations of a program; `integers` are the names of its sizes and strides."""
    common = _common(body, integers)
    builder = _Builder(frozenset(common))
    builder.block(body, ())
    return EvaluationOrder(common, builder.steps, builder.free)


def _common(body: ir.Block, integers: frozenset[str]) -> ir.Block:
    found: list[ir.Operation] = []
    values: set[ir.Value] = set()
    for operation in ir.walk(body):
        if values.issuperset(ir.operands(operation)) and _is_common(operation, integers):
            found.append(operation)
            values.update(ir.results(operation))
    return tuple(found)


def _is_common(operation: ir.Operation, integers: frozenset[str]) -> bool:
    """Tell whether an operation has the same result everywhere if its operands have."""
    match operation:
        case ir.Constant() | ir.ScalarArgument():
            return True
        case ir.Index(expr=expr, lanes=lanes, bindings=bindings):
            return expr.variables <= integers | {lane.name for lane in lanes} | {name for name, _ in bindings}
        case ir.Apply():
            return operation.primitive.effect is Effect.NONE and not operation.primitive.has_combine
    return False


@dataclass(eq=False)
class _Builder:
    common: frozenset[ir.Operation]
    steps: dict[int, tuple[Step, ...]] = field(default_factory=dict)
    free: dict[ir.Operation, tuple[ir.Value, ...]] = field(default_factory=dict)

    def block(self, block: ir.Block, yields: tuple[ir.Value, ...]) -> set[ir.Value]:
        """Order a block and those in it; `yields` outlive it. Returns the values that it reads from outside."""
        operations = [operation for operation in block if operation not in self.common]
        defined = {value for operation in operations for value in ir.results(operation)}
        read = set(yields)
        steps: list[Step] = []
        for operation in reversed(operations):
            used = set(ir.reads(operation))
            if nested := _nested(operation):
                inner = set().union(*(self.block(*part) for part in nested)) - _own(operation)
                self.free[operation] = tuple(inner | used)
                used |= inner
            unread = [value for value in ir.results(operation) if value not in read]
            steps.append((operation, (*((used - read) & defined), *unread)))
            read |= used
        self.steps[id(block)] = tuple(steps[::-1])
        return read - defined


def _own(operation: ir.Operation) -> set[ir.Value]:
    """Return the values that are known only inside the blocks of an operation."""
    match operation:
        case ir.For() | ir.While():
            return set(operation.arguments)
        case ir.Apply() if isinstance(combine := operation.attribute("combine"), ir.Lambda):
            return set(combine.arguments)
    return set()


def _nested(operation: ir.Operation) -> tuple[tuple[ir.Block, tuple[ir.Value, ...]], ...]:
    """Return the blocks in an operation, each with the values that must outlive it."""
    match operation:
        case ir.For() | ir.While():
            return ((operation.body, operation.yields),)
        case ir.If():
            return (operation.then_body, operation.then_yields), (operation.else_body, operation.else_yields)
        case ir.Apply() if isinstance(combine := operation.attribute("combine"), ir.Lambda):
            return ((combine.body, combine.yields),)
    return ()

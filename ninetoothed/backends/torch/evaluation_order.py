"""The order in which the operations of a program run, and how long their values live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ninetoothed import ir

Step = tuple[ir.Operation, tuple[ir.Value, ...]]


@dataclass(frozen=True, eq=False)
class EvaluationOrder:
    """The operations in the order in which they run.

    steps: for each block, by its `id`, its operations, each with the values that nothing reads after it.
    free: for each control operation, the values that its blocks read from outside.
    """

    steps: Mapping[int, tuple[Step, ...]]
    free: Mapping[ir.Operation, tuple[ir.Value, ...]]


def make_order(body: ir.Block) -> EvaluationOrder:
    """Order the operations of a program."""
    builder = _Builder()
    builder.block(body, ())
    return EvaluationOrder(builder.steps, builder.free)


@dataclass(eq=False)
class _Builder:
    steps: dict[int, tuple[Step, ...]] = field(default_factory=dict)
    free: dict[ir.Operation, tuple[ir.Value, ...]] = field(default_factory=dict)

    def block(self, block: ir.Block, yields: tuple[ir.Value, ...]) -> set[ir.Value]:
        """Order a block and those in it; `yields` outlive it. Returns the values that it reads from outside."""
        defined = {value for operation in block for value in ir.results(operation)}
        read = set(yields)
        steps: list[Step] = []
        for operation in reversed(block):
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
        case ir.Loop():
            return set(operation.arguments)
        case ir.Apply() if isinstance(combine := operation.attribute("combine"), ir.Lambda):
            return set(combine.arguments)
    return set()


def _nested(operation: ir.Operation) -> tuple[tuple[ir.Block, tuple[ir.Value, ...]], ...]:
    """Return the blocks in an operation, each with the values that must outlive it."""
    match operation:
        case ir.Loop():
            return ((operation.body, operation.yields),)
        case ir.If():
            return (operation.then_body, operation.then_yields), (operation.else_body, operation.else_yields)
        case ir.Apply() if isinstance(combine := operation.attribute("combine"), ir.Lambda):
            return ((combine.body, combine.yields),)
    return ()

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
            if regions := ir.regions(operation):
                inner = set().union(*(self.block(block, yields) - {*own} for block, own, yields in regions))
                self.free[operation] = tuple(inner | used)
                used |= inner
            unread = [value for value in ir.results(operation) if value not in read]
            steps.append((operation, (*((used - read) & defined), *unread)))
            read |= used
        self.steps[id(block)] = tuple(steps[::-1])
        return read - defined

"""Plan executions: once for a program (`ExecutionPlan`), and once for each set of sizes (`BoundPlan`)."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ninetoothed import ir
from ninetoothed.arrangement.guards import Guard
from ninetoothed.backends.torch import forms
from ninetoothed.backends.torch.algebra import evaluate
from ninetoothed.backends.torch.evaluation_order import EvaluationOrder, make_order
from ninetoothed.dtypes import PointerType
from ninetoothed.expr import offset
from ninetoothed.ir.effects import stored
from ninetoothed.language.primitive import Effect

# Elements of the largest tile value over a slice of programs: a few of them fit a CPU's cache, and a pass over
# one takes longer than starting it. Matrix products gain from larger ones.
SLICE = 2**19
PRODUCT_SLICE = 2**22


@dataclass(frozen=True, eq=False)
class ExecutionPlan:
    """A program, analysed as far as possible before its sizes are known.

    stored: the parameters that are written. serial: whether programs must run one after the other. elements: those of
    the largest tile. budget: how many elements of such tiles a slice may have. shows: whether it prints or stops.
    """

    program: ir.Program
    order: EvaluationOrder
    stored: frozenset[str]
    serial: bool
    elements: int
    budget: int
    shows: bool = False


@dataclass(frozen=True, eq=False)
class BoundAccess:
    """An access for one set of sizes, as forms over its dimensions; see `forms`.

    constraints: (form, low, high), all of which hold where an element is in bounds.
    counters: the loop counters that it mentions.
    """

    access: ir.Access
    names: tuple[str | None, ...]
    offset: forms.LinearForm
    constraints: tuple[tuple[forms.LinearForm, int | None, int | None], ...]
    counters: tuple[str, ...]


@dataclass(eq=False)
class Memo:
    """A cache for calls of equal sizes; it stops growing at a number of entries, and of elements."""

    entries: dict = field(default_factory=dict)
    elements: int = 0
    most_entries: int = 4096
    most_elements: int = 2**18

    def get(self, key: Hashable) -> Any:
        return self.entries.get(key)

    def put(self, key: Hashable, item: object, elements: int) -> None:
        if len(self.entries) < self.most_entries and self.elements + elements <= self.most_elements:
            self.entries[key] = item
            self.elements += elements


@dataclass(frozen=True, eq=False)
class BoundPlan:
    """A plan with the sizes and strides of one call."""

    plan: ExecutionPlan
    integers: Mapping[str, int]
    device: torch.device
    grid: tuple[int, ...]
    accesses: Mapping[ir.Operation, BoundAccess]
    memo: Memo = field(default_factory=Memo)

    def slices(self, one_by_one: bool = False) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Yield (first program, number of programs) of each slice, in row-major order."""
        counts = (1,) * len(self.grid) if one_by_one else self._counts()
        steps = [range(0, extent, count) for extent, count in zip(self.grid, counts)]
        for starts in itertools.product(*steps):
            yield starts, tuple(min(c, g - s) for c, g, s in zip(counts, self.grid, starts))

    def _counts(self) -> tuple[int, ...]:
        if self.plan.serial:
            return (1,) * len(self.grid)
        left = max(1, self.plan.budget // self.plan.elements)
        counts = []
        for extent in reversed(self.grid):
            # Slices of about equal size: the last one would otherwise be a small remainder.
            parts = math.ceil(extent / min(extent, left))
            counts.append(math.ceil(extent / parts))
            left = max(1, left // extent) if parts == 1 else 1
        return tuple(reversed(counts))


def make_plan(program: ir.Program) -> ExecutionPlan:
    """Plan the execution of a program, for any sizes."""
    operations = tuple(ir.walk(program.body))
    applied = {operation.function for operation in operations if isinstance(operation, ir.Apply)}
    values = [value for operation in operations for value in ir.results(operation)]
    return ExecutionPlan(
        program,
        make_order(program.body),
        stored(operations),
        _must_run_serially(operations, applied),
        max((math.prod(value.type.lanes) for value in values), default=1),
        PRODUCT_SLICE if "dot" in applied else SLICE,
        any(isinstance(operation, ir.Print | ir.Breakpoint) for operation in operations),
    )


def _must_run_serially(operations: Sequence[ir.Operation], applied: set[str]) -> bool:
    """Tell whether programs must run one after the other.

    What is printed or debugged shows one program's tiles; a program that waits for another must find it finished.
    """
    if any(isinstance(operation, ir.Print | ir.Breakpoint) for operation in operations) or "atomic_cas" in applied:
        return True
    loops = [operation for operation in operations if isinstance(operation, ir.While)]
    polled = {operation for loop in loops for block in ir.blocks(loop) for operation in ir.walk(block)}
    written = stored(operations)
    return any(
        isinstance(operation, ir.Apply)
        and operation.primitive.effect in (Effect.READS, Effect.UPDATES)
        and isinstance(pointer := operation.operands[0].type.dtype, PointerType)
        and pointer.parameter in written
        for operation in polled
    )


@functools.lru_cache(maxsize=64)
def bind(plan: ExecutionPlan, integers: tuple[tuple[str, int], ...], device: torch.device) -> BoundPlan:
    """Bind a plan to one set of sizes and strides; calls of equal sizes share it, and what it remembers."""
    numbers, program = dict(integers), plan.program
    accesses: dict[ir.Operation, BoundAccess] = {
        operation: _bind_access(program, operation.access, numbers)
        for operation in ir.walk(program.body)
        if isinstance(operation, ir.Load | ir.Store)
    }
    return BoundPlan(plan, numbers, device, tuple(int(evaluate(each, numbers)) for each in program.grid), accesses)


def _bind_access(program: ir.Program, access: ir.Access, numbers: Mapping[str, int]) -> BoundAccess:
    """Write the offset and the guards of an access as forms."""
    lanes = {lane.axis: lane.name for lane in access.lanes}
    names = (*program.axes, *(lanes.get(axis) for axis in range(len(access.type.lanes))))
    strides = program.parameter(access.parameter).strides
    distance = forms.form_of(offset(access.indices, strides), names, numbers)
    constraints = tuple(each for guard in access.guards for each in _constraints(guard, names, numbers))
    mentioned = distance.expr.variables.union(*(form.expr.variables for form, _, _ in constraints))
    known = {*names, *numbers, *(name for name, _ in access.bindings)}
    return BoundAccess(access, names, distance, constraints, tuple(sorted(mentioned - known)))


def _constraints(
    guard: Guard, names: tuple[str | None, ...], numbers: Mapping[str, int]
) -> Iterator[tuple[forms.LinearForm, int | None, int | None]]:
    """Yield the forms of a guard, each with the limits between which it has to be."""
    size = forms.with_numbers(guard.size, numbers)
    if size.is_constant:
        high = size.constant - 1 if guard.upper else None
        yield forms.form_of(guard.index, names, numbers), 0 if guard.lower else None, high
        return
    if guard.lower:
        yield forms.form_of(guard.index, names, numbers), 0, None
    if guard.upper:
        yield forms.form_of(guard.index - size, names, numbers), None, -1

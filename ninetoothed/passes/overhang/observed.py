"""Find the lanes of values that no later use reads.

A store reads no lanes that its guards leave out; an element-wise operation reads those that its result's uses read.
So the product of a matrix multiplication needs no masks for the last rows and columns: they are never written.
"""

from __future__ import annotations

from dataclasses import dataclass

from ninetoothed import ir
from ninetoothed.expr import Expr, Facts, simplify
from ninetoothed.ir.dataflow import Dataflow
from ninetoothed.ir.effects import has_effect
from ninetoothed.ir.lanes import backwards, with_lanes
from ninetoothed.passes.overhang import edges

# How many elements are left from a lane on, `size - index`, by each end that counts: lanes where one of these is 0 or
# less are not read. None: no lane is.
Unread = frozenset[Expr] | None


def unobserved(program: ir.Program) -> dict[ir.Value, frozenset[Expr]]:
    """Find which lanes of each value are not read; see `Unread`."""
    fixed = frozenset(value for operation in program.body for value in ir.results(operation) if value.type.is_scalar)
    unread = _Unread(program.facts, fixed)
    unread.run(program.body)
    return unread.facts


@dataclass(eq=False)
class _Unread(Dataflow[frozenset[Expr]]):
    """Follows what no use of a value reads, from the last use to the first. known: facts of sizes."""

    known: Facts
    fixed: frozenset[ir.Value]
    backwards = True

    def join(self, known: Unread, fact: frozenset[Expr]) -> frozenset[Expr]:
        return fact if known is None else fact & known

    def outside(self, loop: ir.Loop, fact: frozenset[Expr]) -> frozenset[Expr]:
        counter = loop.variable if isinstance(loop, ir.For) else None
        return frozenset(remaining for remaining in fact if counter not in remaining.variables)

    def follow(self, operation: ir.Operation) -> None:
        match operation:
            case ir.Store(access=access, value=value):
                self.note(value, self.guarded(access))
                self.note_all((bound for _, bound in access.bindings), frozenset())
            case ir.Load(result=result, access=access):
                for _, bound in access.bindings:
                    same = bound.type.lanes == result.type.lanes
                    self.note(bound, self.facts.get(result) if same else frozenset())
            case ir.Apply():
                self.apply(operation)
            case _:
                self.note_all(ir.controls(operation), frozenset())
        if isinstance(operation, ir.Loop):
            for value in self.facts.keys() & set(operation.arguments):  # The round before has another counter.
                self.note(value, self.outside(operation, self.facts[value]))

    def guarded(self, access: ir.Access) -> frozenset[Expr]:
        """Return what the guards of a store leave out: for `lane < n`, `n - lane`."""
        bound = {name for name, value in access.bindings if value not in self.fixed}
        facts = with_lanes(self.known, access.type.axes)
        unread = (simplify(guard.size - guard.index, facts) for guard in access.guards if guard.upper)
        return frozenset(remaining for remaining in unread if not remaining.variables & bound)

    def apply(self, operation: ir.Apply) -> None:
        """Note what an application reads, given what its uses leave out of its results."""
        found = [unread for unread in map(self.facts.get, operation.results) if unread is not None]
        if not found and not has_effect(operation) and operation.results:
            return  # nothing reads it, so it reads nothing
        unread = frozenset.intersection(*found) if found else frozenset()
        if operation.function == "passed":  # Out of bounds it is another number.
            self.note(operation.operands[0], unread | self.guarded(operation.attribute("access")))
        elif operation.primitive.effect.writes:
            self.note_all(operation.operands, frozenset())
        elif operation.primitive.is_elementwise:
            for value in operation.operands:
                self.note(value, unread)
        else:
            for position, value in enumerate(operation.operands):
                self.note(value, self.moved_back(unread, operation, position))

    def moved_back(self, unread: frozenset[Expr], operation: ir.Apply, position: int) -> frozenset[Expr]:
        """Say of an operand what is said of results: nothing along axes that the operation combines."""
        facts, axes = with_lanes(self.known, operation.operands[position].type.axes), backwards(operation, position)
        found = (edges.expressed(remaining, operation.results[0].type, axes) for remaining in unread)
        return frozenset(simplify(remaining, facts) for remaining in found if remaining is not None)

"""Find the lanes of values that no later use reads.

A store reads no lanes that its guards leave out; an element-wise operation reads those that its result's uses read.
So the product of a matrix multiplication needs no masks for the last rows and columns: they are never written.
"""

from __future__ import annotations

from dataclasses import dataclass

from ninetoothed import ir
from ninetoothed.effects import has_effect
from ninetoothed.expr import Expr, Facts, simplify
from ninetoothed.ir.dataflow import Dataflow
from ninetoothed.ir.lanes import backwards, with_lanes
from ninetoothed.passes.overhang import edges

# Lanes with `room <= 0` by any of these are left out; None: all lanes are.
Rooms = frozenset[Expr] | None


def unobserved(program: ir.Program) -> dict[ir.Value, frozenset[Expr]]:
    """Find the rooms of each value that is read; see `Rooms`."""
    rooms = _Rooms(program.facts)
    rooms.settle(program.body)
    return rooms.facts


@dataclass(eq=False)
class _Rooms(Dataflow[frozenset[Expr]]):
    """Follows the rooms that all uses of a value leave out, from the last use to the first. known: facts of sizes."""

    known: Facts
    backwards = True

    def join(self, known: Rooms, fact: frozenset[Expr]) -> frozenset[Expr]:
        return fact if known is None else fact & known

    def outside(self, loop: ir.Loop, fact: frozenset[Expr]) -> frozenset[Expr]:
        counter = loop.variable if isinstance(loop, ir.For) else None
        return frozenset(room for room in fact if counter not in room.variables)

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
        """Return the rooms that the guards of a store leave out."""
        bound = {name for name, _ in access.bindings}
        facts = with_lanes(self.known, access.type.axes)
        rooms = (simplify(guard.size - guard.index, facts) for guard in access.guards if guard.upper)
        return frozenset(room for room in rooms if not room.variables & bound)

    def apply(self, operation: ir.Apply) -> None:
        """Note what an application reads, given what its uses leave out of its results."""
        found = [rooms for rooms in map(self.facts.get, operation.results) if rooms is not None]
        if not found and not has_effect(operation) and operation.results:
            return  # nothing reads it, so it reads nothing
        rooms = frozenset.intersection(*found) if found else frozenset()
        if operation.function == "passed":  # Out of bounds it is another number.
            self.note(operation.operands[0], rooms | self.guarded(operation.attribute("access")))
        elif operation.primitive.effect.writes:
            self.note_all(operation.operands, frozenset())
        elif operation.primitive.is_elementwise:
            for value in operation.operands:
                self.note(value, rooms)
        else:
            for position, value in enumerate(operation.operands):
                self.note(value, self.moved_back(rooms, operation, position))

    def moved_back(self, rooms: frozenset[Expr], operation: ir.Apply, position: int) -> frozenset[Expr]:
        """Move rooms of an operation's results to an operand, less those of axes that it combines."""
        facts, axes = with_lanes(self.known, operation.operands[position].type.axes), backwards(operation, position)
        found = (edges.expressed(room, operation.results[0].type, axes) for room in rooms)
        return frozenset(simplify(room, facts) for room in found if room is not None)

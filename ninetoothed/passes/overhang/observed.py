"""Find the lanes of values that no later use reads.

A store reads no lanes that its guards leave out; an element-wise operation reads those that its result's uses read.
So the product of a matrix multiplication needs no masks for the last rows and columns: they are never written.
"""

from __future__ import annotations

from collections.abc import Iterable

from ninetoothed import ir
from ninetoothed.effects import has_effect
from ninetoothed.expr import Expr, Facts, simplify
from ninetoothed.ir.lanes import backwards
from ninetoothed.passes.overhang import edges
from ninetoothed.passes.overhang.edges import with_lanes

# Lanes with `room <= 0` by any of these are left out; None: all lanes are.
Rooms = frozenset[Expr] | None


def unobserved(program: ir.Program) -> dict[ir.Value, frozenset[Expr]]:
    """Find the rooms of each value that is read; see `Rooms`."""
    rewriter = _Work(program.facts)
    while True:
        before = dict(rewriter.rooms)
        rewriter.block(program.body)
        if rewriter.rooms == before:
            return rewriter.rooms


class _Work:
    """Goes backwards through blocks, again and again until nothing changes."""

    def __init__(self, facts: Facts):
        self.facts = facts
        self.rooms: dict[ir.Value, frozenset[Expr]] = {}

    def read(self, value: ir.Value, rooms: Rooms) -> None:
        """Note a use that leaves out `rooms`."""
        if rooms is not None:
            self.rooms[value] = rooms & self.rooms.get(value, rooms)

    def of(self, value: ir.Value) -> Rooms:
        """Return the rooms that all uses of a value leave out; None where it has no use yet."""
        return self.rooms.get(value)

    def block(self, block: ir.Block) -> None:
        """Note what the operations of a block read, the last first."""
        for operation in reversed(block):
            self.operation(operation)

    def operation(self, operation: ir.Operation) -> None:
        """Note what an operation reads."""
        match operation:
            case ir.Store(access=access, value=value):
                self.read(value, self.guarded(access))
                self.read_all(bound for _, bound in access.bindings)
            case ir.Load(result=result, access=access):
                for _, bound in access.bindings:
                    same = bound.type.lanes == result.type.lanes
                    self.read(bound, self.of(result) if same else frozenset())
            case ir.Apply():
                self.apply(operation)
            case ir.Loop():
                self.loop(operation)
            case ir.If():
                for each in operation.outcomes:
                    self.read(each.then, self.of(each.result))
                    self.read(each.otherwise, self.of(each.result))
                self.read(operation.condition, frozenset())
                self.block(operation.then_body)
                self.block(operation.else_body)
            case _:
                self.read_all(ir.operands(operation))

    def read_all(self, values: Iterable[ir.Value]) -> None:
        """Note uses that leave out nothing."""
        for value in values:
            self.read(value, frozenset())

    def guarded(self, access: ir.Access) -> frozenset[Expr]:
        """Return the rooms that the guards of a store leave out."""
        bound = {name for name, _ in access.bindings}
        facts = with_lanes(self.facts, access.type)
        rooms = (simplify(guard.size - guard.index, facts) for guard in access.guards if guard.upper)
        return frozenset(room for room in rooms if not room.variables & bound)

    def loop(self, loop: ir.Loop) -> None:
        """Note what a loop reads, whose arguments may be what its results are."""
        counter = {loop.variable} if isinstance(loop, ir.For) else set()
        if isinstance(loop, ir.While):
            self.read(loop.condition, frozenset())
        for each in loop.carried:
            inside = self.of(each.argument)
            if inside is not None:  # in the next round the counter is another
                inside = frozenset(room for room in inside if not room.variables & counter)
            for value in (each.initial, each.yielded, each.argument):  # each may be what the result is
                self.read(value, inside)
                self.read(value, self.of(each.result))
        self.block(loop.body)
        if isinstance(loop, ir.For):
            self.read_all(value for _, value in loop.bindings)

    def apply(self, operation: ir.Apply) -> None:
        """Note what an application reads, given what its uses leave out of its results."""
        found = [rooms for rooms in map(self.of, operation.results) if rooms is not None]
        if not found and not has_effect(operation) and operation.results:
            return  # nothing reads it, so it reads nothing
        rooms = frozenset.intersection(*found) if found else frozenset()
        if operation.function == "passed":  # Out of bounds it is another number.
            self.read(operation.operands[0], rooms | self.guarded(operation.attribute("access")))
        elif operation.primitive.effect.writes:
            self.read_all(operation.operands)
        elif operation.primitive.is_elementwise:
            for value in operation.operands:
                self.read(value, rooms)
        else:
            for position, value in enumerate(operation.operands):
                self.read(value, self.moved_back(rooms, operation, position))

    def moved_back(self, rooms: frozenset[Expr], operation: ir.Apply, position: int) -> frozenset[Expr]:
        """Move rooms of an operation's results to an operand, less those of axes that it combines."""
        facts, axes = with_lanes(self.facts, operation.operands[position].type), backwards(operation, position)
        found = (edges.expressed(room, operation.results[0].type, axes) for room in rooms)
        return frozenset(simplify(room, facts) for room in found if room is not None)

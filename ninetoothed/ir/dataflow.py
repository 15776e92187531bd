"""Follow facts about values through a program until nothing changes; an analysis adds its lattice and its transfer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ninetoothed.ir.nodes import Block, If, Loop, Operation
from ninetoothed.ir.traversal import blocks
from ninetoothed.ir.values import Value

Fact = TypeVar("Fact")
# The most changes of a value's fact. Facts are sets: of the guards of a store, or of a few expressions.
MOST_CHANGES = 64


@dataclass(eq=False)
class Dataflow(ABC, Generic[Fact]):
    """The facts of values, joined from operation to operation, and where a loop or a branch hands values on.

    backwards: whether facts of results say something of operands, and not the other way round.
    """

    facts: dict[Value, Fact] = field(default_factory=dict, init=False)
    backwards = False

    @abstractmethod
    def join(self, known: Fact | None, fact: Fact) -> Fact:
        """Return what holds of a value of which two facts are noted, the first of them perhaps none."""

    @abstractmethod
    def follow(self, operation: Operation) -> None:
        """Note what an operation tells of values, but for what it hands on into and out of its blocks."""

    def outside(self, loop: Loop, fact: Fact) -> Fact:
        """Return what holds in another round, or outside the loop, if a fact holds in a round."""
        return fact

    def note(self, value: Value, fact: Fact | None) -> None:
        """Join a fact to what is known of a value."""
        if fact is not None:
            self.facts[value] = self.join(self.facts.get(value), fact)

    def note_all(self, values: Iterable[Value], fact: Fact) -> None:
        """Join a fact to what is known of values."""
        for value in values:
            self.note(value, fact)

    def run(self, block: Block) -> None:
        """Follow the operations of a block; those of a loop until what is known of its variables stays."""
        for operation in reversed(block) if self.backwards else block:
            if nested := blocks(operation):
                self._run_nested(operation, nested)
            else:
                self.follow(operation)

    def _run_nested(self, operation: Operation, nested: tuple[Block, ...]) -> None:
        """Follow blocks. A round changes a fact of a loop-carried variable, or is the last."""
        carried = operation.arguments if isinstance(operation, Loop) else ()
        steps = (self.follow, self._hand_on) if self.backwards else (self._hand_on, self.follow)
        for _ in range(1 + MOST_CHANGES * len(carried)):
            # One variable may take over another's: what is handed on is a change, too.
            before = [self.facts.get(value) for value in carried]
            for step in steps:
                step(operation)
            for block in nested:
                self.run(block)
            if not self.backwards:
                self._hand_on(operation)
            if before == [self.facts.get(value) for value in carried]:
                return
        raise AssertionError(f"{type(self).__name__} reaches no fixed point")

    def _hand_on(self, operation: Operation) -> None:
        """Note what values take over from each other where control flow joins."""
        match operation:
            case Loop(carried=rows) | If(outcomes=rows):
                flows = (pair for row in rows for pair in row.flows)
                for start, end in ((b, a) for a, b in reversed([*flows])) if self.backwards else flows:
                    fact = self.facts.get(start)
                    if fact is not None and isinstance(operation, Loop) and start in operation.arguments:
                        fact = self.outside(operation, fact)
                    self.note(end, fact)

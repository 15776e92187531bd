"""Pass: remove what nothing observes: unused values, and variables that loops and branches carry for no one.

x = load(...)                      for k: args (a, b) -> for k: args (a)
(x unused)        -> nothing       (b only feeds itself)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.ir import Block, For, If, Loop, Operation, Program, Value
from ninetoothed.ir.dataflow import Dataflow
from ninetoothed.ir.effects import has_effect


def remove(program: Program) -> Program:
    """Remove dead code from a program."""
    return replace(program, body=remove_dead(program.body))


def remove_dead(block: Block, live: Iterable[Value] = (), must_run: Callable[[Operation], bool] = has_effect) -> Block:
    """Remove the operations of a block that neither must run nor lead to a value in `live`."""
    liveness = _Liveness(must_run)
    liveness.note_all(live, True)
    liveness.run(block)
    return _Remover(liveness=liveness).block(block)


@dataclass(eq=False)
class _Liveness(Dataflow[bool]):
    """Finds the values that kept operations read."""

    must_run: Callable[[Operation], bool]
    backwards = True

    def join(self, known: bool | None, fact: bool) -> bool:
        return True

    def is_kept(self, operation: Operation) -> bool:
        """Tell whether something reads a result of an operation, or it must run."""
        return any(result in self.facts for result in ir.results(operation)) or self.must_run(operation)

    def follow(self, operation: Operation) -> None:
        if not self.is_kept(operation):
            return
        self.note_all(ir.controls(operation), True)
        if isinstance(operation, For) and operation.merge is not None:
            inside = (value for nested in ir.walk(operation.merge.body) for value in ir.operands(nested))
            self.note_all((*inside, *operation.merge.yields), True)
            if any(result in self.facts for result in operation.results):
                self.note_all(operation.results, True)  # It makes each result of all of them.


@dataclass(kw_only=True)
class _Remover(ir.Rewriter):
    """Leaves out what nothing reads."""

    liveness: _Liveness

    def operation(self, operation: Operation) -> Block:
        live = self.liveness.facts
        if not self.liveness.is_kept(operation):
            return ()
        match operation:
            case Loop(carried=carried):
                left = tuple(each for each in carried if each.argument in live)
                operation = operation if left == carried else replace(operation, carried=left)
            case If(outcomes=outcomes):
                kept = tuple(each for each in outcomes if each.result in live)
                operation = operation if kept == outcomes else replace(operation, outcomes=kept)
        return (self.rebuilt(operation),)

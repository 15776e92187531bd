"""Pass: remove what nothing observes: unused values, and variables that loops and branches carry for no one.

x = load(...)                      for k: args (a, b) -> for k: args (a)
(x unused)        -> nothing       (b only feeds itself)
"""

from __future__ import annotations

from dataclasses import replace

from ninetoothed import ir
from ninetoothed.effects import has_effect
from ninetoothed.ir import Apply, Block, For, If, Loop, Operation, Program, Value, While


def remove(program: Program) -> Program | None:
    """Remove dead code from a program; None where there is none."""
    body = remove_dead(program.body)
    return None if _size(body) == _size(program.body) else replace(program, body=body)


def remove_dead(block: Block, live: frozenset[Value] = frozenset()) -> Block:
    """Remove the operations of a block that neither have an effect nor lead to a value in `live`."""
    kept, _ = _sweep(block, set(live))
    return kept


def _size(block: Block) -> int:
    """Count operations and the values that they define: dead code takes away some of either."""
    return sum(1 + len(ir.results(operation)) for operation in ir.walk(block))


def _sweep(block: Block, live: set[Value]) -> tuple[Block, set[Value]]:
    """Give the operations kept, and the values needed on entry, from those needed on exit."""
    kept: list[Operation] = []
    for operation in reversed(block):
        if not has_effect(operation) and not any(result in live for result in ir.results(operation)):
            continue
        match operation:
            case Loop():
                operation, needed = _sweep_loop(operation, live)
            case If():
                operation, needed = _sweep_branch(operation, live)
            case _:
                needed = set(ir.operands(operation)) | _inside_lambdas(operation)
        kept.append(operation)
        live = live | needed
    return tuple(reversed(kept)), live


def _inside_lambdas(operation: Operation) -> set[Value]:
    if not isinstance(operation, Apply) or not isinstance(operation.attribute("combine"), ir.Lambda):
        return set()
    return _inside(operation.attribute("combine"))


def _inside(combine: ir.Lambda) -> set[Value]:
    return {value for nested in ir.walk(combine.body) for value in ir.operands(nested)} | set(combine.yields)


def _sweep_loop(loop: Loop, live: set[Value]) -> tuple[Operation, set[Value]]:
    """Return a loop without the variables that nothing reads, and the values that it reads."""
    needed = {i for i, result in enumerate(loop.results) if result in live}
    merge = loop.merge if isinstance(loop, For) else None
    if merge is not None and needed:
        needed = set(range(len(loop.results)))  # It makes each result of all of them.
    if isinstance(loop, While):
        needed.add(0)  # Its condition.
    while True:
        body, used = _sweep(loop.body, {loop.yields[i] for i in needed})
        more = needed | {i for i, argument in enumerate(loop.arguments) if argument in used}
        if more == needed:
            break
        needed = more
    slim = replace(loop, body=body, carried=tuple(loop.carried[i] for i in sorted(needed)))
    outside = used | set(slim.initial) | set(slim.yields)
    if isinstance(loop, For):
        outside |= {value for _, value in loop.bindings}
        outside |= _inside(merge) if merge is not None else set()
    return slim, outside


def _sweep_branch(branch: If, live: set[Value]) -> tuple[Operation, set[Value]]:
    """Return a branch without the results that nothing reads, and the values that it reads."""
    outcomes = tuple(each for each in branch.outcomes if each.result in live)
    then_body, used_then = _sweep(branch.then_body, {each.then for each in outcomes})
    else_body, used_else = _sweep(branch.else_body, {each.otherwise for each in outcomes})
    slim = replace(branch, then_body=then_body, else_body=else_body, outcomes=outcomes)
    return slim, used_then | used_else | {branch.condition}

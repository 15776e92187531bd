"""Pass: a long sum is shared out over several programs, the last of which to finish adds up what all have found.

    total = zeros; for k in range(n): total += f(k)
    store(c, g(total))
->  total = zeros; for k in range(n * part // parts, n * (part + 1) // parts): total += f(k)
    store(workspace[slot, part], total)
    if atomic_add(semaphores[slot], 1) == parts - 1:
        total = workspace[slot, 0] + workspace[slot, 1] + ...
        store(c, g(total))

Either every tile has as many parts, or those alone have some that are left over after whole waves: `stream_k`.
`fix_up` has the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.expr import const, var
from ninetoothed.passes.fix_up import Buffer, Met, Parts, in_parts
from ninetoothed.passes.reduction_match import match
from ninetoothed.passes.stream_k import PART, PARTS, SLOT, Tail


@dataclass(frozen=True)
class Shared:
    """A program, the memory in which parts of its sum meet, and the tail of its tiles if they alone have parts."""

    program: ir.Program
    buffers: tuple[Buffer, ...] = ()
    tail: Tail | None = None


def split(program: ir.Program, parts: int, at_once: int = 0) -> Shared:
    """The program with its sum in parts, only of tiles beyond whole waves of `at_once` programs unless that is 0.

    As it is where there is no such sum.
    """
    loop = match(program) if parts > 1 else None
    if loop is None:
        return Shared(program)
    before, after = around(program, loop)
    taken = {parameter.name for parameter in program.parameters}
    if not at_once:
        met = in_parts(loop, after, _of_all(program, parts), taken)
        return shared(program, before, met, ((PART, parts),))
    tail = Tail(math.prod(program.grid, start=const(1)), at_once, parts)
    slots = const(at_once)
    met = in_parts(loop, after, Parts(var(PARTS), var(PART), var(SLOT), slots, slots), taken)
    return replace(shared(program, before, met, tail.axes), tail=tail)


def around(program: ir.Program, loop: ir.For) -> tuple[ir.Block, ir.Block]:
    """What a program does before a loop of its body, and after it."""
    position = program.body.index(loop)
    return program.body[:position], program.body[position + 1 :]


def shared(program: ir.Program, before: ir.Block, met: Met, axes: tuple[tuple[str, int], ...]) -> Shared:
    """The program that does `met` after `before`; its indices get `axes` before them.

    axes: with numbers of which the indices along them are less.
    """
    facts = program.facts
    for axis, bound in axes:
        facts = facts.bind(axis, 0, bound - 1)
    new = replace(
        program,
        parameters=(*program.parameters, *met.parameters),
        grid=(*(const(bound) for _, bound in axes), *program.grid),
        axes=(*(axis for axis, _ in axes), *program.axes),
        body=(*before, *met.block),
        facts=facts,
    )
    return Shared(new, met.buffers)


def _of_all(program: ir.Program, parts: int) -> Parts:
    """The slot is the number of the tile."""
    slot, slots = const(0), const(1)
    for axis, extent in zip(program.axes, program.grid, strict=True):
        slot, slots = slot * extent + var(axis), slots * extent
    return Parts(const(parts), var(PART), slot, slots, slots * parts)

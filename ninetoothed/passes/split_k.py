"""Pass: share out each long sum over several programs, the last of which to finish adds up their parts.

    total = zeros; for k in range(n): total += f(k)
    store(c, g(total))
->  total = zeros; for k in range(n * part // parts, n * (part + 1) // parts): total += f(k)
    store(workspace[slot, part], total)
    if atomic_add(semaphores[slot], 1) == parts - 1:
        total = workspace[slot, 0] + workspace[slot, 1] + ...
        store(c, g(total))

Every tile has as many parts; `stream_k` shares out those alone that are left over after whole waves. `fix_up` makes the
operations by which parts meet.
"""

from __future__ import annotations

from ninetoothed import ir
from ninetoothed.expr import const, var
from ninetoothed.passes.fix_up import PartialSum, around, sum_in_parts, with_fix_up
from ninetoothed.passes.reduction_match import match
from ninetoothed.passes.remainder import PART
from ninetoothed.passes.scheduled import ScheduledProgram


def split(program: ir.Program, parts: int) -> ScheduledProgram | None:
    """Share out the sum of each tile over `parts` programs; None where there is no sum to share out."""
    loop = match(program) if parts > 1 else None
    if loop is None:
        return None
    before, after = around(program, loop)
    taken = {parameter.name for parameter in program.parameters}
    return with_fix_up(program, before, sum_in_parts(loop, after, _partial(program, parts), taken), ((PART, parts),))


def _partial(program: ir.Program, parts: int) -> PartialSum:
    """Return the part of a program, whose slot is the number of its tile."""
    slot, slots = const(0), const(1)
    for axis, extent in zip(program.axes, program.grid, strict=True):
        slot, slots = slot * extent + var(axis), slots * extent
    return PartialSum(const(parts), var(PART), slot, slots, slots * parts)

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
from ninetoothed.passes.fix_up import PartialSum, share_out
from ninetoothed.passes.remainder import PART
from ninetoothed.passes.scheduled import ScheduledProgram
from ninetoothed.schedule import SplitK


def split(program: ir.Program, sharing: SplitK) -> ScheduledProgram | None:
    """Share out the sum of each tile, whose number is that of its slot; None where there is no sum to share out."""
    slot, slots, parts = const(0), const(1), sharing.parts
    for axis, extent in zip(program.axes, program.grid, strict=True):
        slot, slots = slot * extent + var(axis), slots * extent
    partial = PartialSum(const(parts), var(PART), slot, slots, slots * parts)
    return share_out(program, partial, ((PART, parts),)) if parts > 1 else None

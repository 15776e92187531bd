"""Pass: share out the sums of those tiles that are left over after whole waves of programs.

    total = zeros; for k in range(n): total += f(k)
    store(c, g(total))
->  total = zeros; for k in range(n * part // parts, n * (part + 1) // parts): total += f(k)
    if parts > 1:
        ...meet in workspace[slot], and let the last program store...
    else:
        store(c, g(total))

`remainder` has which program computes which part of which tile, `fix_up` how parts meet.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ninetoothed import ir
from ninetoothed.expr import const, var
from ninetoothed.passes.fix_up import PartialSum, around, sum_in_parts, with_fix_up
from ninetoothed.passes.reduction_match import match
from ninetoothed.passes.remainder import PART, PARTS, SLOT, Remainder
from ninetoothed.passes.scheduled import ScheduledProgram


def share_out(program: ir.Program, most_parts: int, tiles_per_wave: int) -> ScheduledProgram | None:
    """Share out the sums of tiles beyond whole waves over at most `most_parts` programs each.

    None where there is no sum to share out.
    """
    loop = match(program) if most_parts > 1 else None
    if loop is None:
        return None
    before, after = around(program, loop)
    remainder = Remainder(math.prod(program.grid, start=const(1)), tiles_per_wave, most_parts)
    slots = const(tiles_per_wave)
    taken = {parameter.name for parameter in program.parameters}
    fix_up = sum_in_parts(loop, after, PartialSum(var(PARTS), var(PART), var(SLOT), slots, slots), taken)
    return replace(with_fix_up(program, before, fix_up, remainder.axes), remainder=remainder)

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
from ninetoothed.passes import fix_up
from ninetoothed.passes.remainder import PART, PARTS, SLOT, Remainder
from ninetoothed.passes.scheduled import ScheduledProgram
from ninetoothed.schedule import StreamK


def share_out(program: ir.Program, sharing: StreamK) -> ScheduledProgram | None:
    """Share out the sums of tiles beyond whole waves; None where there is no sum to share out."""
    tiles, slots = math.prod(program.grid, start=const(1)), const(sharing.tiles_per_wave)
    remainder = Remainder(tiles, sharing.tiles_per_wave, sharing.ctas_per_tile)
    partial = fix_up.PartialSum(var(PARTS), var(PART), var(SLOT), slots, slots)
    shared = fix_up.share_out(program, partial, remainder.axes) if sharing.ctas_per_tile > 1 else None
    return None if shared is None else replace(shared, remainder=remainder)

"""Pass: let two tasks compute a half of a program's rows each.

    total = zeros(128)                             a_half = a[half * 64 :][:64]; total = zeros(64)
    for k in range(n):                     ->      for k in range(n):
        total += sum(dot(a, b[k]), axis=1)             total += sum(dot(a_half, b[k]), axis=1)
    store(c, total)                                store(c[half * 64 :][:64], total)

What does not depend on `half` is the same for both: tiles such as b[k], and the number of rounds.
"""

from __future__ import annotations

from dataclasses import replace

from ninetoothed import ir
from ninetoothed.expr import const, var
from ninetoothed.passes.dead_code import remove_dead
from ninetoothed.passes.operations import producers
from ninetoothed.passes.subtile import AxisSlice, Inseparable, SubtileBuilder

HALF = "half"
HALVES = 2


def halve(program: ir.Program, rows: int) -> ir.Program | None:
    """Return the program of a half of so many rows, which axis 0 of all that is stored has; None where it has none."""
    piece = (AxisSlice(0, rows // HALVES, var(HALF) * (rows // HALVES)),)
    builder = SubtileBuilder(producers(program.body))
    stores: list[ir.Store] = []
    try:
        for operation in program.body:
            match operation:
                case ir.Store(value=value) if value.type.lanes[:1] == (rows,):
                    stores.append(builder.stored(operation, piece))
                case ir.Store() | ir.If() | ir.While() | ir.Print() | ir.Breakpoint() | ir.Apply(results=()):
                    return None
    except Inseparable:
        return None
    return replace(
        program,
        grid=(*program.grid, const(HALVES)),
        axes=(*program.axes, HALF),
        body=remove_dead((*builder.operations, *stores)),
        facts=program.facts.bind(HALF, 0, HALVES - 1),
    )

"""Pass: map the programs of a launch to tiles, and to parts of tiles.

    pid_0 = pid // (heads * blocks)                   pid_0 = program_id(2)
    pid_1 = pid // blocks % heads               ->    pid_1 = program_id(1)
    pid_2 = pid % blocks                              pid_2 = program_id(0)

The left is used where programs are grouped for L2, take several tiles each, share out what is left of tiles after whole
waves (see `remainder`), or are too many along an outer axis. Where those along the last axis have not the same to do,
as in a causal attention, those with more of it come first, so that none of them is left over at the end:

    pid_2 = blocks - 1 - pid % blocks

Groups of rows for L2 have all their longest programs first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ninetoothed import ir
from ninetoothed.expr import Expr, Var, const, maximum, minimum, var
from ninetoothed.expr.sizes import evaluate
from ninetoothed.passes.products import Feed, products
from ninetoothed.passes.remainder import PART, PARTS, SLOT, Remainder
from ninetoothed.passes.row_halves import HALF
from ninetoothed.passes.scheduled import Grid, ScheduledProgram
from ninetoothed.schedule import Schedule

# The numbers of a program along the axes of a launch, and of the last along the first. No other names begin with "$".
LAUNCH, LAST = ("$launch_0", "$launch_1", "$launch_2"), "$last"
# The number of a program, or of the tile at hand where a program takes one after another.
PID = "$0.pid"
OUTER, ROW = "$0.outer", "$0.row"
# Two programs, and a number for every other name, so large that it caps neither.
_FIRST, _LATER, _OTHER = 0, 1 << 20, 1 << 40

Axes = list[tuple[str, Expr]]


def place(state: ScheduledProgram, schedule: Schedule) -> Grid:
    """Choose the axes of the launch, and the map."""
    program, remainder, is_persistent = state.program, state.remainder, state.persistent_loop is not None
    mapped = (PART, PARTS, SLOT) if remainder else (HALF,) if state.is_overlapped else ()
    axes = [each for each in zip(program.axes, program.grid, strict=True) if each[1] != 1 and each[0] not in mapped]
    extents = tuple(extent for _, extent in axes)
    may_be_grouped = len(axes) > 1 and schedule.group_rows > 1
    is_grouped = may_be_grouped and _wants_groups(program, axes)
    is_uneven = may_be_grouped and not is_grouped and not remainder and bool(growth(program, axes[-1][0]))
    new = _Map(program)
    if len(axes) > 1 and schedule.multi_axis_grid and not (is_grouped or is_uneven or is_persistent or remainder):
        new.spread(axes)
        return Grid(((extents[-1],), (extents[-2],), extents[:-2]), new.live())
    if not is_persistent:
        new.names[PID] = var(LAUNCH[0])
    words = (["extent"] * len(axes) + ["rows", "columns"])[-len(axes) :]
    axes = [(axis, new.define(word, extent)) for word, (axis, extent) in zip(words, axes, strict=False)]
    tiles, pid = math.prod((extent for _, extent in axes), start=const(1)), var(PID)
    if remainder is not None:
        pid = new.beyond_waves(remainder, pid, tiles)
    if is_grouped:
        new.grouped(axes, pid, schedule.group_rows)
    elif is_uneven:
        rows = math.prod((extent for _, extent in axes[:-1]), start=const(1))
        new.grouped([(ROW, new.define("rows", rows)), axes[-1]], pid, schedule.group_rows)
        new.row_major(axes[:-1], var(ROW))
    else:
        new.row_major(axes, pid)
    launch = (remainder.programs,) if remainder else extents
    return Grid((launch,), new.live(tiles.variables if is_persistent else ()), tiles if is_persistent else None)


class _Map:
    """Defines names one after another. None is negative."""

    def __init__(self, program: ir.Program):
        self.program = program
        self.names: dict[str, Expr] = {}

    def define(self, word: str, e: Expr) -> Expr:
        """Name an expression, unless it is a number or a name already."""
        if e.is_constant or isinstance(e.sole_atom, Var):
            return e
        name = f"${len(self.names)}.{word}"
        self.names[name] = e
        return var(name)

    def live(self, more: Iterable[str] = ()) -> tuple[tuple[str, Expr], ...]:
        """Return the definitions that the program needs, or `more`."""
        needed, found = {*more}.union(*map(ir.integers, ir.walk(self.program.body))), []
        for name, e in reversed(self.names.items()):
            if name in needed:
                needed |= e.variables
                found.append((name, e))
        return tuple(reversed(found))

    def spread(self, axes: Axes) -> None:
        """Count programs along axes of the launch: the last is the first, the one before the second, others the third.

        Of the first its own extent is known without any computation.
        """
        *outer, (rows, _), (columns, _) = axes
        if len(outer) > 1:
            self.names[OUTER] = var(LAUNCH[2])
        self.row_major(outer, var(OUTER if len(outer) > 1 else LAUNCH[2]))
        self.names[rows] = var(LAUNCH[1])
        self.names[columns] = self.longest_first(columns, var(LAUNCH[0]), var(LAST))

    def longest_first(self, axis: str, index: Expr, last: Expr) -> Expr:
        """Return the index along an axis of the program that is at `index` where those with most to do come first."""
        return last - index if growth(self.program, axis) > 0 else index

    def row_major(self, axes: Axes, pid: Expr) -> None:
        """Count along the last axis first; the first needs no remainder."""
        indices, inner = {}, const(1)
        for axis, extent in reversed(axes):
            indices[axis] = pid // inner if axis == axes[0][0] else pid // inner % extent
            if not indices.keys() - {axis} and len(axes) > 1:
                indices[axis] = self.longest_first(axis, indices[axis], extent - 1)
            inner *= extent
        self.names |= dict(reversed(indices.items()))

    def grouped(self, axes: Axes, pid: Expr, count: int) -> None:
        """Walk down groups of rows, column by column: programs that run together share their operands in L2.

        pid_0 = pid // columns                          pid_0 = first_row + pid % group_size % group_rows
        pid_1 = pid % columns                       ->  pid_1 = pid % group_size // group_rows
        """
        *outer, (rows, height), (columns, width) = axes
        number, pid = pid, self.define("tile", pid % (height * width)) if outer else pid
        if height.is_constant and height.constant <= count:
            row, column = pid % height, pid // height
        else:
            size = self.define("group_size", width * count)
            first = self.define("first_row", pid // size * count)
            here = self.define("group_rows", minimum(height - first, count))
            row, column = first + pid % size % here, pid % size // here
        self.names |= {rows: row, columns: self.longest_first(columns, column, width - 1)}
        self.row_major(outer, number // (height * width))

    def beyond_waves(self, remainder: Remainder, pid: Expr, tiles: Expr) -> Expr:
        """Define which part of a tile a program computes, of how many, and their slot; return the tile's number."""
        tiles = self.define("tiles", tiles)
        spare = self.define("spare", tiles % remainder.tiles_per_wave)
        is_cut = self.define("is_cut", remainder.is_cut(spare)) if remainder.subtiles > 1 else const(1)
        parts = self.define("ctas_per_tile", remainder.ctas_per_tile(spare, is_cut))
        whole = self.define("whole", tiles - spare)
        beyond = self.define("beyond", maximum(pid - whole, 0))
        # One part where pid < whole: there are never more than `most`.
        most = remainder.subtiles * remainder.most_parts
        self.names[PARTS] = minimum(maximum(pid + 1 - whole, 0) * most + 1, parts)
        self.names |= {PART: beyond % parts, SLOT: beyond // parts}
        return self.define("tile", minimum(pid, whole) + var(SLOT))


def growth(program: ir.Program, axis: str) -> int:
    """Tell how the rounds of loops change with the program's index along `axis`: 1 if some are more and none fewer.

    -1 if some are fewer and none more; 0 for anything else.
    """
    loops = (operation for operation in ir.walk(program.body) if isinstance(operation, ir.For))
    rounds = [loop.stop - loop.start for loop in loops if axis in loop.stop.variables | loop.start.variables]
    changes = {_sign(_at(_LATER, each, axis) - _at(_FIRST, each, axis)) for each in rounds} - {0}
    return changes.pop() if len(changes) == 1 else 0


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _at(program: int, e: Expr, axis: str) -> int:
    return evaluate(e, {**dict.fromkeys(e.variables, _OTHER), axis: program})


def _wants_groups(program: ir.Program, axes: Axes) -> bool:
    """Tell whether a loop multiplies a tile that depends on the next to last axis alone by one of the last alone."""
    ends = {axes[-2][0], axes[-1][0]}
    sides = ([_variables(side) & ends for side in each.sides] for each in products(program) if each.loops)
    return any(len(lhs) == len(rhs) == 1 and lhs != rhs for lhs, rhs in sides)


def _variables(side: tuple[Feed, ...]) -> frozenset[str]:
    """Return the variables on whose values it depends which tiles feed a side of a product."""
    loads = (feed for feed in side if feed.load is not None)
    return frozenset[str]().union(*(index.variables for feed in loads for index in feed.access.indices))

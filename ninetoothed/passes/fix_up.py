"""Fix-up of sums in parts: each part is left in memory, and the program that comes last adds them up.

    store(workspace[slot, part], total)
    if atomic_add(semaphores[slot], 1) == parts - 1:
        total = workspace[slot, 0]; for other in range(1, parts): total += workspace[slot, other]
        ...
        semaphores[slot] = 0

Parts are added in their own order, whichever program does it: equal calls give equal results. The last program leaves
the semaphores as it found them, at zero, for the next launch. Rows of which nothing will be stored are left out, where
the number of parts is the call's.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.arrangement.guards import Guard
from ninetoothed.dtypes import DType, PointerType, int1, int32
from ninetoothed.expr import Expr, const, var
from ninetoothed.passes.operations import compared
from ninetoothed.passes.reduction_match import around, match
from ninetoothed.passes.scheduled import Buffer, ScheduledProgram
from ninetoothed.passes.subtile import needs_same_slice
from ninetoothed.wording import unused

# Elements of parts that are loaded at once: 16 registers of each of 128 threads, for each part.
MOST_UNROLLED = 2048
_SLOT, _OTHER = "tile_number", "other_part"
_Values = tuple[ir.Value, ...]
# The names of new program indices, each with the number that it is less than.
NewAxes = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class PartialSum:
    """The part of a sum that a program computes: number `part` of `count`.

    slot: the number of the place where the parts of one tile meet, of so many `slots`. tiles: how many tiles of partial
    sums the workspace has room for.
    """

    count: Expr
    part: Expr
    slot: Expr
    slots: Expr
    tiles: Expr


@dataclass(frozen=True)
class FixUp:
    """Operations in place of a loop and what follows it, and the memory that they take."""

    block: ir.Block
    parameters: tuple[ir.Parameter, ...] = ()
    buffers: tuple[Buffer, ...] = ()


def share_out(program: ir.Program, partial: PartialSum, axes: NewAxes) -> ScheduledProgram | None:
    """Share out the sum of each tile over the programs along new axes; None where there is no sum to share out."""
    loop = match(program)
    if loop is None:
        return None
    before, after = around(program, loop)
    return with_fix_up(program, before, sum_in_parts(program, loop, after, partial), axes)


def sum_in_parts(program: ir.Program, loop: ir.For, after: ir.Block, partial: PartialSum) -> FixUp:
    """Sum in parts; the last program does what follows the sum, and one whose tile is of one part does it at once."""
    return _FixUpBuilder(loop, after, partial, {parameter.name for parameter in program.parameters}).build()


def if_more(count: Expr, many: ir.Block, one: ir.Block) -> ir.Block:
    """Branch to `many` where `count` is more than 1, and to `one` elsewhere."""
    is_more, condition = compared("gt", count, const(1))
    return (*condition, ir.If(is_more, many, one))


def with_fix_up(program: ir.Program, before: ir.Block, fix_up: FixUp, axes: NewAxes) -> ScheduledProgram:
    """Put a fix-up after `before`, and `axes` before the program indices."""
    facts = program.facts
    for axis, limit in axes:
        facts = facts.bind(axis, 0, limit - 1)
    new = replace(
        program,
        parameters=(*program.parameters, *fix_up.parameters),
        grid=(*(const(limit) for _, limit in axes), *program.grid),
        axes=(*(axis for axis, _ in axes), *program.axes),
        body=(*before, *fix_up.block),
        facts=facts,
    )
    return ScheduledProgram(new, buffers=fix_up.buffers)


class _FixUpBuilder:
    """Builds the operations by which the parts of one loop meet."""

    def __init__(self, loop: ir.For, after: ir.Block, partial: PartialSum, taken: Container[str]):
        self._loop, self._after, self._partial = loop, after, partial
        self._slot = ir.Value(ir.TileType(int32), _SLOT)
        names = ("workspace", *(f"workspace_{position}" for position in range(1, len(loop.results))))
        self._workspaces = tuple(unused(name, taken) for name in names)
        self._semaphores = unused("semaphores", taken)
        # A known number of parts of a sum is added up in one go, in which masks would cost more than they spare.
        has_guards = not partial.count.is_constant or loop.merge is not None
        self._guards = tuple(_guards_of_rows(after, each) if has_guards else () for each in loop.results)

    def build(self) -> FixUp:
        count, part = self._partial.count, self._partial.part
        start, stop = (self._loop.stop * each // count for each in (part, part + 1))
        fix_up = self._fix_up()
        then = fix_up if count.is_constant else if_more(count, fix_up, self._after)
        return FixUp((replace(self._loop, start=start, stop=stop, merge=None), *then), *self._memory())

    def _memory(self) -> tuple[tuple[ir.Parameter, ...], tuple[Buffer, ...]]:
        partial = self._partial
        parameters, buffers = [], []
        for name, result in zip(self._workspaces, self._loop.results, strict=True):
            lanes, dtype = result.type.lanes, _element(result)
            sizes = (partial.tiles, *map(const, lanes))
            strides = tuple(const(math.prod(lanes[axis:])) for axis in range(len(lanes) + 1))
            parameters.append(ir.Parameter(name, "tensor", dtype, sizes, strides))
            buffers.append(Buffer(name, dtype, partial.tiles * math.prod(lanes)))
        parameters.append(ir.Parameter(self._semaphores, "tensor", int32, (partial.slots,), (const(1),)))
        buffers.append(Buffer(self._semaphores, int32, partial.slots, is_zeroed=True))
        return tuple(parameters), tuple(buffers)

    def _fix_up(self) -> ir.Block:
        """Store the part, count the arrival, and let the last program finish the tile."""
        scalar = ir.TileType(int32)
        pointer = ir.TileType(PointerType(int32, self._semaphores))
        base, semaphore, arrived = ir.Value(pointer), ir.Value(pointer, "semaphore"), ir.Value(scalar, "arrived")
        one, zero, last, is_last = *(ir.Value(scalar) for _ in range(3)), ir.Value(ir.TileType(int1))
        totals, merging = self._merge_parts()
        rest = (*merging, *ir.Cloner(values=dict(zip(self._loop.results, totals, strict=True))).block(self._after))
        leave = (ir.Constant(zero, 0), ir.Apply((), "store_pointer", (semaphore, zero)))
        return (
            ir.Index(self._slot, self._partial.slot),
            *map(ir.Store, self._accesses(self._partial.part), self._loop.results),
            ir.Apply((), "debug_barrier", ()),
            ir.Apply((base,), "data_ptr", (), (("parameter", self._semaphores),)),
            ir.Apply((semaphore,), "add", (base, self._slot)),
            ir.Constant(one, 1),
            ir.Apply((arrived,), "atomic_add", (semaphore, one)),
            ir.Index(last, self._partial.count - 1),
            ir.Apply((is_last,), "eq", (arrived, last)),
            ir.If(is_last, (*rest, *leave)),
        )

    def _merge_parts(self) -> tuple[_Values, ir.Block]:
        """Merge the parts in their order; what they make, and the operations that make it."""
        results = self._loop.results
        first, state, totals = (tuple(ir.Value(each.type, each.hint) for each in results) for _ in range(3))
        hints = (f"partial_{each.hint}" if self._loop.merge and each.hint else "partial" for each in results)
        loaded = tuple(ir.Value(each.type, hint) for each, hint in zip(results, hints, strict=True))
        merging, yields = self._merged(state, loaded)
        body = (*map(ir.Load, loaded, self._accesses(var(_OTHER))), *merging)
        carried = ir.Carried.of(first, state, yields, totals)
        loop = ir.For(carried, body, _OTHER, const(1), self._partial.count, const(1), hints=self._hints())
        return totals, (*map(ir.Load, first, self._accesses(const(0))), loop)

    def _hints(self) -> tuple[tuple[str, int], ...]:
        """Let small parts be loaded all at once: one after another, each would be waited for."""
        count = self._partial.count
        elements = max(math.prod(result.type.lanes) for result in self._loop.results)
        if not count.is_constant or elements > MOST_UNROLLED:
            return ()
        return (("loop_unroll_factor", max(count.constant - 1, 1)),)

    def _merged(self, state: _Values, other: _Values) -> tuple[ir.Block, _Values]:
        """Merge two parts: by the loop's own function, or else as sums."""
        merge = self._loop.merge
        if merge is None:
            total = ir.Value(state[0].type, state[0].hint)
            return (ir.Apply((total,), "add", (*state, *other)),), (total,)
        cloner = ir.Cloner(values=dict(zip(merge.arguments, (*state, *other), strict=True)))
        return cloner.block(merge.body), tuple(map(cloner.value, merge.yields))

    def _accesses(self, part: Expr) -> Iterator[ir.Access]:
        """Yield the place of a part for each loop-carried variable."""
        slot = ((_SLOT, self._slot),)
        for name, result, guards in zip(self._workspaces, self._loop.results, self._guards, strict=True):
            lanes = tuple(ir.Lane(_lane(axis), axis, count) for axis, count in enumerate(result.type.lanes))
            indices = (var(_SLOT) * self._partial.count + part, *(var(lane.name) for lane in lanes))
            yield ir.Access(name, result.type, indices, guards, lanes=lanes, bindings=slot)


def _element(value: ir.Value) -> DType:
    assert isinstance(value.type.dtype, DType), "pointers are no part of a sum"
    return value.type.dtype


def _lane(axis: int) -> str:
    return f"part_{axis}"


def _guards_of_rows(after: ir.Block, total: ir.Value) -> tuple[Guard, ...]:
    """Find the guards that hold for each row of which something is stored."""
    stores = [operation for operation in after if isinstance(operation, ir.Store)]
    rank = len(total.type.lanes)
    if len(stores) != 1 or rank != 2 or not needs_same_slice(after, stores[0].value, total, axis=0):
        return ()
    access = stores[0].access
    columns = {lane.name for lane in access.lanes if lane.axis == 1} | {name for name, _ in access.bindings}
    moved = {lane.name: var(_lane(lane.axis)) for lane in access.lanes}
    return tuple(guard.at(lambda e: e.subs(moved)) for guard in access.guards if columns.isdisjoint(guard.variables))

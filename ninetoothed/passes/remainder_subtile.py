"""Pass: cut tiles that are left over after whole waves of programs into quarters, each of one program or more.

    total = zeros; for k in range(n): total += f(k)
    store(c, g(total))
->  if parts > 1:
        total = zeros; for k in range(n): total += f(k)[rows, columns]
        store(c[rows, columns], g(total))
    else:
        total = zeros; for k in range(n): total += f(k)
        store(c, g(total))

`remainder` has which tiles these are. Quarters of which nothing would be stored are left out. Where even fewer of them
than programs that run at once are left over, their sums are shared out: partial sums of quarters are small, and take
little time to meet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ninetoothed import ir
from ninetoothed.expr import Expr, const, var
from ninetoothed.passes.fix_up import FixUp, PartialSum, if_more, sum_in_parts, with_fix_up
from ninetoothed.passes.operations import compared, producers
from ninetoothed.passes.reduction_match import around, match
from ninetoothed.passes.remainder import PART, PARTS, SLOT, Remainder
from ninetoothed.passes.scheduled import ScheduledProgram
from ninetoothed.passes.subtile import AxisSlice, Inseparable, Subtile, SubtileBuilder
from ninetoothed.schedule import StreamK

QUARTERS = 4
# Shorter sides are not worth cutting.
FEWEST_LANES = 128


def subtile(program: ir.Program, sharing: StreamK) -> ScheduledProgram | None:
    """Cut tiles beyond whole waves into quarters; None where there is no sum of large tiles to cut."""
    most_parts, tiles_per_wave, stages = sharing.ctas_per_tile, sharing.tiles_per_wave, sharing.subtile_stages
    loop = match(program) if stages else None
    loop = loop if loop is not None and loop.merge is None else None
    lanes = loop.results[0].type.lanes if loop is not None else ()
    if loop is None or len(lanes) != 2 or min(lanes) < FEWEST_LANES:
        return None
    before, after = around(program, loop)
    quarter, (rows, columns) = var(PART) % QUARTERS, (count // 2 for count in lanes)
    piece = AxisSlice(0, rows, quarter // 2 * rows), AxisSlice(1, columns, quarter % 2 * columns)
    try:
        start, cut_loop, end = _quarter(program, loop, piece)
    except Inseparable:
        return None
    cut_loop = replace(cut_loop, hints=(("num_stages", stages),))
    fix_up = FixUp((cut_loop, *end))
    if most_parts > 1:
        slot, slots = var(SLOT) * QUARTERS + quarter, const(tiles_per_wave)
        partial = PartialSum(var(PARTS) // QUARTERS, var(PART) // QUARTERS, slot, slots=slots, tiles=slots)
        fix_up = sum_in_parts(program, cut_loop, end, partial)
    block = if_more(var(PARTS), _if_stored((*start, *fix_up.block), end), (loop, *after))
    remainder = Remainder(math.prod(program.grid, start=const(1)), tiles_per_wave, most_parts, QUARTERS)
    return replace(with_fix_up(program, before, replace(fix_up, block=block), remainder.axes), remainder=remainder)


def _quarter(program: ir.Program, loop: ir.For, piece: Subtile) -> tuple[ir.Block, ir.For, ir.Block]:
    """Compute a quarter: the operations before its loop, the loop, and those after it."""
    before, after = around(program, loop)
    defined = (value for operation in before for value in ir.results(operation))
    whole: dict[tuple[ir.Value, Subtile], ir.Value] = {(value, ()): value for value in defined}
    builder = SubtileBuilder(producers(program.body), known=whole)
    builder.part(loop.results[0], piece)  # first, so that what follows it comes after it
    stores = tuple(builder.stored(store, piece) for store in _stores(after, loop.results[0]))
    early_loads = (operation.result.type.lanes for operation in before if isinstance(operation, ir.Load))
    if not _are_own(builder, after, piece) or any(sum(count > 1 for count in lanes) > 1 for lanes in early_loads):
        raise Inseparable
    new = next(operation for operation in builder.operations if isinstance(operation, ir.For))
    position = builder.operations.index(new)
    return tuple(builder.operations[:position]), new, (*builder.operations[position + 1 :], *stores)


def _stores(after: ir.Block, total: ir.Value) -> tuple[ir.Store, ...]:
    """Find the stores after a sum; raise `Inseparable` where something is loaded after the first of them."""
    loads = (position for position, operation in enumerate(after) if isinstance(operation, ir.Load))
    end = max(loads, default=-1) + 1
    stores = tuple(operation for operation in after if isinstance(operation, ir.Store))
    are_last = not any(operation in stores for operation in after[:end])
    if not are_last or any(store.value.type.lanes != total.type.lanes for store in stores):
        raise Inseparable
    return stores


def _are_own(builder: SubtileBuilder, after: ir.Block, piece: Subtile) -> bool:
    """Tell whether a quarter reads just what lies where it stores: what is loaded may be what is stored."""

    def is_own(lanes: tuple[int, ...], read: Subtile) -> bool:
        is_cut = len(read) == sum(count > 1 for count in lanes)
        return is_cut and (len(lanes) < 2 or set(read) <= set(piece))

    loads = {operation.result for operation in after if isinstance(operation, ir.Load)}
    loaded = (key for key in builder.known if key[0] in loads)
    return all(is_own(value.type.lanes, read) for value, read in loaded)


def _if_stored(block: ir.Block, end: ir.Block) -> ir.Block:
    """Skip a block that would store nothing at its end: quarters may lie beyond the tensor."""
    accesses = [operation.access for operation in end if isinstance(operation, ir.Store)]
    if len(accesses) != 1:
        return block
    first = {lane.name: 0 for lane in accesses[0].lanes}
    for guard in accesses[0].guards:
        if guard.upper and _is_least(guard.index, first) and first.keys().isdisjoint(guard.size.variables):
            is_inside, condition = compared("lt", guard.index.subs(first), guard.size)
            block = (*condition, ir.If(is_inside, block))
    return block


def _is_least(index: Expr, first: Mapping[str, int]) -> bool:
    """Tell whether an index is the least where all lanes are the first."""
    linear = index.linear(first)
    return linear is not None and all(each.is_constant and each.constant >= 0 for each in linear[0].values())

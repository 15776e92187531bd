"""Pass: tiles left over after whole waves of programs are cut in quarters, and so are their sums.

    total = zeros; for k in range(n): total += f(k)
    store(c, g(total))
->  if parts > 1:
        total = zeros; for k in range(n): total += f(k)[rows, columns]
        store(c[rows, columns], g(total))
    else:
        total = zeros; for k in range(n): total += f(k)
        store(c, g(total))

`stream_k` has which tiles these are. Quarters of which nothing would be stored are left out. Where even fewer of them
than programs that run at once are left over, their sums are shared out: the parts of quarters are small, and take
little time to meet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from ninetoothed import ir
from ninetoothed.dtypes import int1, int32
from ninetoothed.expr import Expr, const, var
from ninetoothed.passes.fix_up import Met, Parts, if_more, in_parts
from ninetoothed.passes.reduction_match import match
from ninetoothed.passes.split_k import Shared, around, shared
from ninetoothed.passes.stream_k import PART, PARTS, SLOT, Tail
from ninetoothed.passes.subtile import Cut, Cuts, Pieces, Whole, cut_type, producers_of

QUARTERS = 4
# Shorter sides are not worth cutting.
FEWEST_LANES = 128


def subtile(program: ir.Program, parts: int, at_once: int, stages: int) -> Shared:
    """The program with tiles beyond whole waves of `at_once` programs in quarters, their sums in at most `parts`.

    stages: those of the loops of quarters. As it is where that is 0, or where there is no sum of large tiles to cut.
    """
    loop = match(program) if stages else None
    lanes = loop.results[0].type.lanes if loop is not None else ()
    if len(lanes) != 2 or min(lanes) < FEWEST_LANES:
        return Shared(program)
    before, after = around(program, loop)
    quarter, (rows, columns) = var(PART) % QUARTERS, (count // 2 for count in lanes)
    cuts = Cut(0, rows, quarter // 2 * rows), Cut(1, columns, quarter % 2 * columns)
    try:
        start, cut_loop, end = _quarter(before, replace(loop, hints=(("num_stages", stages),)), after, cuts)
    except Whole:
        return Shared(program)
    tail = Tail(math.prod(program.grid, start=const(1)), at_once, parts, QUARTERS)
    met = Met((cut_loop, *end), (), ())
    if parts > 1:
        slot, slots = var(SLOT) * QUARTERS + quarter, const(at_once)
        count, part = var(PARTS) // QUARTERS, var(PART) // QUARTERS
        places = Parts(count, part, slot, slots=slots, tiles=slots)
        met = in_parts(cut_loop, end, places, {parameter.name for parameter in program.parameters})
    block = if_more(var(PARTS), _if_stored((*start, *met.block), end), (loop, *after))
    return replace(shared(program, before, replace(met, block=block), tail.axes), tail=tail)


def _quarter(before: ir.Block, loop: ir.For, after: ir.Block, cuts: Cuts) -> tuple[ir.Block, ir.For, ir.Block]:
    """The loop of a quarter, what it takes before that, and what follows it."""

    def never(value: ir.Value, cuts: Cuts) -> ir.Value:
        raise Whole

    earlier = Pieces(producers_of(before), never)

    def early(value: ir.Value, cuts: Cuts) -> ir.Value:
        return earlier.of(value, cuts) if cuts else value

    (initial,), (carried,), (end,), (total,) = loop.initial, loop.arguments, loop.yields, loop.results
    type = cut_type(total.type, cuts)
    argument, result = ir.Value(type, carried.hint), ir.Value(type, total.hint)
    within = Pieces(producers_of(loop.body), early, known={(carried, cuts): argument})
    yields, start = (within.of(end, cuts),), (earlier.of(initial, cuts),)
    new = replace(
        loop, initial=start, arguments=(argument,), body=tuple(within.operations), yields=yields, results=(result,)
    )
    later = Pieces(producers_of(after), early, known={(total, cuts): result})
    stores = tuple(later.stored(store, cuts) for store in _stores(after, total))
    early_loads = (operation.result.type.lanes for operation in before if isinstance(operation, ir.Load))
    if not _are_own(later, cuts) or any(sum(count > 1 for count in lanes) > 1 for lanes in early_loads):
        raise Whole
    return tuple(earlier.operations), new, (*later.operations, *stores)


def _stores(after: ir.Block, total: ir.Value) -> ir.Block:
    """The stores of what becomes of a sum, before which all is loaded that is loaded after the sum."""
    loads = (position for position, operation in enumerate(after) if isinstance(operation, ir.Load))
    end = max(loads, default=-1) + 1
    stores = tuple(operation for operation in after if isinstance(operation, ir.Store))
    are_last = not any(operation in stores for operation in after[:end])
    if not are_last or any(store.value.type.lanes != total.type.lanes for store in stores):
        raise Whole
    return stores


def _are_own(pieces: Pieces, cuts: Cuts) -> bool:
    """Whether of what is loaded a quarter reads just what lies where it stores: it may be what is stored."""

    def is_own(lanes: tuple[int, ...], piece: Cuts) -> bool:
        is_cut = len(piece) == sum(count > 1 for count in lanes)
        return is_cut and (len(lanes) < 2 or set(piece) <= set(cuts))

    loaded = (key for key in pieces.known if isinstance(pieces.producers.get(key[0]), ir.Load))
    return all(is_own(value.type.lanes, piece) for value, piece in loaded)


def _if_stored(block: ir.Block, end: ir.Block) -> ir.Block:
    """A block that is only done if something is stored at its end: quarters may lie beyond what is there."""
    accesses = [operation.access for operation in end if isinstance(operation, ir.Store)]
    if len(accesses) != 1:
        return block
    first = {lane.name: 0 for lane in accesses[0].lanes}
    for guard in accesses[0].guards:
        if guard.upper and _is_least(guard.index, first) and first.keys().isdisjoint(guard.size.variables):
            index, size = ir.Value(ir.TileType(int32)), ir.Value(ir.TileType(int32))
            is_inside = ir.Value(ir.TileType(int1))
            block = (
                ir.Index(index, guard.index.subs(first)),
                ir.Index(size, guard.size),
                ir.Apply((is_inside,), "lt", (index, size)),
                ir.If(is_inside, block, (), (), (), ()),
            )
    return block


def _is_least(index: Expr, first: Mapping[str, int]) -> bool:
    """Whether an index is the least where all lanes are the first."""
    linear = index.linear(first)
    return linear is not None and all(each.is_constant and each.constant >= 0 for each in linear[0].values())

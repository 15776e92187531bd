"""Pass: tiles left over after whole waves of programs are cut in quarters, and so are their sums.

    total = zeros; for k in range(n): total += f(k)
    store(c, g(total))
->  if parts > 1:
        total = zeros; for k in range(n): total += f(k)[rows, columns]
        store(c[rows, columns], g(total))
    else:
        total = zeros; for k in range(n): total += f(k)
        store(c, g(total))

`tail` has which tiles these are. Where even fewer quarters than programs that run at once are left over, their sums are
shared out: the parts of quarters are small, and take little time to meet.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ninetoothed import ir
from ninetoothed.backends.triton.meeting import Met, Parts, if_more, in_parts
from ninetoothed.backends.triton.pieces import Cut, Cuts, Pieces, Whole, cut_type, producers_of
from ninetoothed.backends.triton.split import Shared, around, shared
from ninetoothed.backends.triton.sums import sum_of
from ninetoothed.backends.triton.tail import PART, PARTS, SLOT, Tail
from ninetoothed.expr import const, var

QUARTERS = 4
# Shorter sides are not worth cutting.
FEWEST_LANES = 128


def quartered(program: ir.Program, parts: int, at_once: int, stages: int) -> Shared:
    """The program with tiles beyond whole waves of `at_once` programs in quarters, their sums in at most `parts`.

    stages: those of the loops of quarters. As it is where there is no sum of large tiles to cut.
    """
    loop = sum_of(program)
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
        places = Parts(var(PARTS) // QUARTERS, var(PART) // QUARTERS, slot, slots, slots)
        met = in_parts(cut_loop, end, places, {parameter.name for parameter in program.parameters})
    block = if_more(var(PARTS), (*start, *met.block), (loop, *after))
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
    for store in (operation for operation in after if isinstance(operation, ir.Store)):
        if store.value.type.lanes != total.type.lanes:
            raise Whole
        later.store(store, cuts)
    return tuple(earlier.operations), new, tuple(later.operations)

"""List all passes in their order and run them. A program is verified after each.

`run` reports each pass: whether it applied, and the program after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ninetoothed import ir
from ninetoothed.ir.verify import verify
from ninetoothed.passes import (
    blocked_summation,
    coarsening,
    collapse_dimensions,
    contraction,
    dead_code,
    epilogue_subtile,
    exponentials,
    flat_loops,
    grid,
    guarded_loads,
    integer_guards,
    loop_peeling,
    overhang,
    overlapped_products,
    past_the_end,
    persistent,
    product_rounds,
    remainder_subtile,
    row_halves,
    split_k,
    stream_k,
    swap_operands,
    tma_tiles,
    trip_count,
    wgmma_operands,
    workarounds,
    zero_divisors,
)
from ninetoothed.passes.scheduled import PassReport, ScheduledProgram
from ninetoothed.passes.target import Target
from ninetoothed.schedule import DataParallel, Persistent, Schedule, Sharing, SplitK, StreamK

Apply = Callable[[ScheduledProgram, Target, Schedule], ScheduledProgram | None]


@dataclass(frozen=True)
class Pass:
    """A rewriting of programs. name: that of its file.

    apply: gives None where there is nothing to rewrite, or the pass does not suit the target or the schedule.
    """

    name: str
    apply: Apply


def run(
    program: ir.Program, target: Target, schedule: Schedule | None = None, passes: tuple[Pass, ...] | None = None
) -> ScheduledProgram:
    """Apply passes to a program in their order, and verify it after each that applied.

    passes: all of them by default; `PORTABLE` are for a program as it was traced, `GPU` for the result of these.
    """
    state, reports, schedule = ScheduledProgram(program), [], schedule or Schedule()
    for each in PASSES if passes is None else passes:
        after = each.apply(state, target, schedule)
        if after is not None:
            verify(after.program)
        state = state if after is None else after
        reports.append(PassReport(each.name, after is not None, state.program))
    return replace(state, reports=tuple(reports))


# -- passes as functions of one form --


def _rewrites(rewrite: Callable[[ir.Program], ir.Program | None]) -> Apply:
    """Wrap a rewriting that looks at the program alone."""
    return lambda state, target, schedule: _with_program(state, rewrite(state.program))


def _where(suits: Callable[[Target], bool], apply: Apply) -> Apply:
    """Restrict a pass to some targets."""
    return lambda state, target, schedule: apply(state, target, schedule) if suits(target) else None


def _with_program(state: ScheduledProgram, program: ir.Program | None) -> ScheduledProgram | None:
    """Return a state with another program; None where nothing changes."""
    if program is None or program.body == state.program.body:
        return None
    return replace(state, program=program)


def _overhang(state: ScheduledProgram, target: Target, schedule: Schedule) -> ScheduledProgram:
    return replace(state, program=overhang.resolve(state.program, target.poisons_overhang))


def _persistent(state: ScheduledProgram, target: Target, schedule: Schedule) -> ScheduledProgram | None:
    if not isinstance(schedule.sharing, Persistent):
        return None
    loop = persistent.find_loop(state.program, tma_tiles.usable(state.program, target, schedule))
    return None if loop is None else replace(state, persistent_loop=loop)


def _epilogue_subtile(state: ScheduledProgram, target: Target, schedule: Schedule) -> ScheduledProgram | None:
    loop = state.persistent_loop
    return None if loop is None else _with_program(state, epilogue_subtile.subtile(state.program, loop))


def _shares(kind: type[Sharing], share: Callable[[ir.Program, Any], ScheduledProgram | None]) -> Apply:
    """Wrap a way to share out tiles, for schedules that ask for it; the first that applies is the only one."""

    def apply(state: ScheduledProgram, target: Target, schedule: Schedule) -> ScheduledProgram | None:
        is_asked = isinstance(schedule.sharing, kind) and not state.is_distributed
        return share(state.program, schedule.sharing) if is_asked else None

    return apply


def _loop_peeling(state: ScheduledProgram, target: Target, schedule: Schedule) -> ScheduledProgram | None:
    if state.persistent_loop is not None:
        return None
    tiles = tma_tiles.usable(state.program, target, schedule)
    return _with_program(state, loop_peeling.peel(state.program, tiles))


def _blocked_summation(state: ScheduledProgram, target: Target, schedule: Schedule) -> ScheduledProgram | None:
    threads = schedule.num_warps * target.warp_size
    return _with_program(state, blocked_summation.sum_in_blocks(state.program, threads))


def _guarded_loads(state: ScheduledProgram, target: Target, schedule: Schedule) -> ScheduledProgram | None:
    return _with_program(state, guarded_loads.guard(state.program)) if _overlaps(state, target, schedule) else None


def _row_halves(state: ScheduledProgram, target: Target, schedule: Schedule) -> ScheduledProgram | None:
    """Halve the rows of programs that have twice as many as the warps of a task: 16 rows of an instruction each."""
    if not _overlaps(state, target, schedule) or not product_rounds.rounds_of(state.program):
        return None
    return _with_program(state, row_halves.halve(state.program, 2 * 16 * schedule.num_warps))


def _overlapped_products(state: ScheduledProgram, target: Target, schedule: Schedule) -> ScheduledProgram | None:
    program = overlapped_products.overlap(state.program) if _overlaps(state, target, schedule) else None
    return None if program is None else replace(state, program=program, is_overlapped=True)


def _overlaps(state: ScheduledProgram, target: Target, schedule: Schedule) -> bool:
    return schedule.overlaps and target.has_tma and not state.is_distributed


def _tma_tiles(state: ScheduledProgram, target: Target, schedule: Schedule) -> ScheduledProgram | None:
    tiles = tma_tiles.usable(state.program, target, schedule, state.is_overlapped)
    return replace(state, tma_tiles=tiles) if tiles else None


def _trip_count(state: ScheduledProgram, target: Target, schedule: Schedule) -> ScheduledProgram | None:
    return None if state.is_overlapped else _with_program(state, trip_count.mark(state.program, state.tma_tiles))


def _past_the_end(state: ScheduledProgram, target: Target, schedule: Schedule) -> ScheduledProgram | None:
    if state.is_distributed or state.coarsening > 1:
        return None
    return _with_program(state, past_the_end.skip(state.program))


def _grid(state: ScheduledProgram, target: Target, schedule: Schedule) -> ScheduledProgram:
    return replace(state, grid=grid.place(state, schedule))


# -- the passes --

# On a program as it was traced, for every backend but for the targets that a pass names.
PORTABLE = (
    Pass("zero_divisors", _where(lambda target: target.backend == "torch", _rewrites(zero_divisors.assert_none))),
    Pass("overhang", _overhang),
    Pass("dead_code", _rewrites(dead_code.remove)),
)
# For GPUs.
GPU = (
    Pass("collapse_dimensions", _rewrites(collapse_dimensions.collapse)),
    Pass("flat_loops", _rewrites(flat_loops.flatten)),
    Pass("exponentials", _rewrites(exponentials.to_base_two)),
    Pass("contraction", _rewrites(contraction.contract)),
    Pass("dead_code", _rewrites(dead_code.remove)),
    Pass("swap_operands", _where(lambda target: target.has_wgmma, _rewrites(swap_operands.swap))),
    Pass("persistent", _persistent),
    Pass("epilogue_subtile", _epilogue_subtile),
    Pass("remainder_subtile", _shares(StreamK, remainder_subtile.subtile)),
    Pass("stream_k", _shares(StreamK, stream_k.share_out)),
    Pass("split_k", _shares(SplitK, split_k.split)),
    Pass("coarsening", _shares(DataParallel, coarsening.coarsen)),
    Pass("integer_guards", _rewrites(integer_guards.guard)),
    Pass("workarounds", _rewrites(workarounds.work_around)),
    Pass("loop_peeling", _loop_peeling),
    Pass("blocked_summation", _blocked_summation),
    Pass("guarded_loads", _guarded_loads),
    Pass("row_halves", _row_halves),
    Pass("overlapped_products", _overlapped_products),
    Pass(
        "wgmma_operands",
        _where(lambda target: target.loses_wgmma_operands, _rewrites(wgmma_operands.keep_in_shared_memory)),
    ),
    Pass("tma_tiles", _tma_tiles),
    Pass("trip_count", _trip_count),
    Pass("grid", _grid),
    Pass("past_the_end", _past_the_end),
)
PASSES = PORTABLE + GPU

"""Schedules of attention: scores, weights and what they add up to in registers, operands in shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ninetoothed.expr.sizes import evaluate, power_above, power_below
from ninetoothed.runtime.compilation import gluon
from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.selection.pattern import AttentionPattern
from ninetoothed.runtime.selection.problem import RESERVED, TuningProblem
from ninetoothed.schedule import Schedule, in_parts

# The most rows of queries whose keys may be shared out, and the stages of their loops.
FEW_ROWS, FEW_ROWS_STAGES = 32, 3
# The fewest blocks of 64 keys that are shared out: parts take some 3 microseconds to meet.
FEWEST_SHARED = 8
# The fewest keys for which products overlap with exponentials within a program; a diagonal leaves out half of them.
FEWEST_OVERLAPPED = 1024
# The fewest keys for which long steps make up for a diagonal, with heads of 64.
FEWEST_LONG = 2048
# Bytes of spills that an overlapped kernel may have, by the widest heads of its kind: values that its tasks share,
# which no loop reads, and of wide ones a few of an accumulator that takes 128 registers.
MOST_SHARED = {128: 64, 256: 256}


class _Shape(NamedTuple):
    """Rows of queries and of keys, the most stages, and the warps; None for as few as have the registers.

    spilled: the most bytes of registers that it may spill.
    """

    rows: int
    keys: int
    stages: int
    warps: int | None = None
    spilled: int = 0


def attentions(problem: TuningProblem, pattern: AttentionPattern, machine: Machine) -> Iterator[Schedule]:
    """Yield schedules, the best first; programs of gradients that have not the same to do are grouped for L2.

    A group is of as many heads as a third of L2 has room for what their loops read. Forwards, along whose loops a
    softmax runs, are no faster so; the gradient of values, which is like one without it, takes .63 of the time.
    """
    bits = problem.bits(pattern.query)
    read = 2 * problem.extent(pattern.keys) * evaluate(pattern.width, problem.values) * bits // 8
    rows = 1 if pattern.folds_scores else power_below(max(machine.l2 // 3 // max(read, 1), 1))
    for schedule in _schedules(problem, pattern, machine):
        yield replace(schedule, group_rows=rows)


def _schedules(problem: TuningProblem, pattern: AttentionPattern, machine: Machine) -> Iterator[Schedule]:
    """Yield blocks whose scores, weights and accumulator fit into registers, and whose operands into shared memory."""
    width = power_above(max(evaluate(pattern.width, problem.values), 16))
    if problem.is_exact(problem.bits(pattern.query)):
        yield from _exact_attentions(problem, pattern, machine, width)
        return
    if pattern.is_gradient:
        yield from _gradients(problem, pattern, machine, width)
        return
    yield from _few_rows(problem, pattern, machine, width)
    yield from _overlapped(problem, pattern, machine, width)
    most, rows = machine.generation.attention_registers, min(128, power_above(problem.extent(pattern.rows)))
    while rows > 64 and problem.programs({pattern.rows: problem.block(pattern.rows, rows)}) < machine.multiprocessors:
        rows //= 2
    general = ((rows, 64), (rows, 32), (min(rows, 64), 32), (min(rows, 32), 32), (16, 16))
    shapes = [*_fine_shapes(problem, pattern, machine, rows, width), *(_Shape(m, n, 3) for m, n in general)]
    for shape in shapes:
        m, n = _blocks(problem, pattern, shape)
        # A score and a weight for each key, and what is accumulated of the width.
        held, warp = m * (2 * n + width), machine.generation.warp_size
        fitting = (warps for warps in (4, 8) if held // (warp * problem.warps(warps)) <= most)
        warps = shape.warps or next(fitting, None)
        for stages in range(shape.stages, 0, -1):
            needed = _shared_memory(problem, pattern, m, n, width, stages)
            if warps and needed <= machine.shared_memory:
                yield problem.schedule({pattern.rows: m, pattern.keys: n}, warps, stages)
                break


def _few_rows(problem: TuningProblem, pattern: AttentionPattern, machine: Machine, width: int) -> Iterator[Schedule]:
    """Yield a schedule for a step of decoding, whose programs are few: the keys of each are shared out over several.

    As many parts as fill the multiprocessors once, of two blocks of 64 at least. Where keys may be shared out they come
    in blocks of 128, of which twice as much is in flight: timed on an H200 with 40 to 131072 keys.
    """
    few = max(power_above(problem.extent(pattern.rows)), 16)
    rows, keys = _blocks(problem, pattern, _Shape(few, 64, FEW_ROWS_STAGES))
    if problem.extent(pattern.rows) > min(rows, FEW_ROWS):
        return
    free = machine.multiprocessors // max(problem.programs({pattern.rows: rows}), 1)
    steps = problem.extent(pattern.keys) // keys
    parts = min(power_below(max(free, 1)), power_below(steps // 2)) if steps >= FEWEST_SHARED else 1
    for wanted in (128, 64) if steps >= FEWEST_SHARED else (64,):
        rows, keys = _blocks(problem, pattern, _Shape(few, wanted, FEW_ROWS_STAGES))
        if _shared_memory(problem, pattern, rows, keys, width, FEW_ROWS_STAGES) <= machine.shared_memory:
            chosen = problem.schedule({pattern.rows: rows, pattern.keys: keys}, 4, FEW_ROWS_STAGES)
            yield replace(chosen, sharing=in_parts(parts))
            return


def _overlapped(problem: TuningProblem, pattern: AttentionPattern, machine: Machine, width: int) -> Iterator[Schedule]:
    """Yield a schedule by which products overlap with exponentials, for tiles that are wide: two tasks of 64 rows.

    Of narrow ones the exponentials take longer than the products, and programs side by side hide either. A program
    fills a multiprocessor: few programs leave some idle, and those of few keys do little but begin and end. Timed on an
    H200 and an H100.
    """
    if not machine.generation.has_wgmma or not gluon.is_supported() or problem.bits(pattern.query) != 16:
        return
    # With a number in memory for each score, only heads of 128 were timed: .44 to .80 of the plain text's time.
    if width not in MOST_SHARED or (pattern.loads_scores and width != 128):
        return
    wanted = 128, 128 * 128 // width
    blocks = dict(zip((pattern.rows, pattern.keys), _blocks(problem, pattern, _Shape(*wanted, 2)), strict=True))
    is_long = problem.extent(pattern.keys) >= FEWEST_OVERLAPPED * (2 if pattern.has_diagonal else 1)
    are_many = problem.programs(blocks) >= machine.multiprocessors
    schedule = problem.schedule(blocks, 4, 2)
    is_allowed = (*blocks.values(), schedule.num_warps, schedule.num_stages) == (*wanted, 4, 2)
    if is_long and are_many and is_allowed:
        yield replace(schedule, overlaps=True, most_spilled=MOST_SHARED[width])


def _blocks(problem: TuningProblem, pattern: AttentionPattern, shape: _Shape) -> tuple[int, int]:
    """Return the blocks of a shape that the kernel may have."""
    keys = min(shape.keys, power_above(problem.extent(pattern.keys)))
    return problem.block(pattern.rows, shape.rows), problem.block(pattern.keys, keys)


def _shared_memory(
    problem: TuningProblem, pattern: AttentionPattern, rows: int, keys: int, width: int, stages: int
) -> int:
    """Return the bytes for the queries, and for the keys and values of all stages."""
    held = pattern.scores * rows + 2 * problem.stages(stages) * keys
    return problem.bits(pattern.query) // 8 * width * held + RESERVED


def _fine_shapes(
    problem: TuningProblem, pattern: AttentionPattern, machine: Machine, rows: int, width: int
) -> Iterator[_Shape]:
    """Yield shapes for wgmma: a warp group each, so that the products of one hide the exponentials of another.

    Of wide tiles it takes twice the rows, which halves what is copied for each. A mask or a diagonal costs registers
    for each score, and tiles that are looked at in part.
    """
    if not machine.generation.has_wgmma or problem.bits(pattern.query) > 16 or width > 128:
        return
    if width > 64:
        are_many = problem.programs({pattern.rows: 128}) >= 2 * machine.multiprocessors
        if rows == 128 and are_many and not pattern.is_masked and not pattern.has_row_vectors:
            yield _Shape(rows, 64, 2, 4)
        yield _Shape(min(rows, 64), 64, 3)
    else:
        # What a diagonal costs is little beside many keys; a mask is loaded for each of them.
        is_short = pattern.loads_scores or problem.extent(pattern.keys) < FEWEST_LONG
        yield _Shape(min(rows, 64), 64, 3) if pattern.is_masked and is_short else _Shape(min(rows, 64), 128, 2)


def _gradients(problem: TuningProblem, pattern: AttentionPattern, machine: Machine, width: int) -> Iterator[Schedule]:
    """Yield blocks for gradients: a warp for 16 rows, or eight where those lack the registers."""
    most = machine.generation.gradient_registers[pattern.is_masked]
    extent = max(power_above(problem.extent(pattern.rows)), 16)
    general = (_Shape(m, n, 3) for m, n in ((128, 64), (128, 32), (64, 64), (64, 32), (32, 32), (16, 16)))
    for shape in (*_fine_gradients(problem, pattern, machine, width), *general):
        m, n = _blocks(problem, pattern, _Shape(min(shape.rows, extent), *shape[1:]))
        held, warp = m * (2 * n + pattern.accumulators * width), machine.generation.warp_size
        fitting = (warps for warps in (max(m // 16, 4), 8) if held // (warp * problem.warps(warps)) <= most)
        warps = shape.warps or next(fitting, None)
        for stages in range(shape.stages, 0, -1):
            needed = _shared_memory(problem, pattern, m, n, width, stages)
            if warps and needed <= machine.shared_memory:
                chosen = problem.schedule({pattern.rows: m, pattern.keys: n}, warps, stages)
                yield replace(chosen, most_spilled=shape.spilled)
                break


def _fine_gradients(
    problem: TuningProblem, pattern: AttentionPattern, machine: Machine, width: int
) -> Iterator[_Shape]:
    """Yield shapes for wgmma: a warp group each, several of which are resident, as timed on an H200.

    Of tiles wider than 128 two warp groups fill a multiprocessor; what they spill costs less than smaller tiles do.
    """
    if not machine.generation.has_wgmma or problem.bits(pattern.query) > 16 or width > 256:
        return
    if width > 128:
        yield _Shape(64, 64, 2, 8, spilled=256) if pattern.accumulators > 1 else _Shape(128, 32, 3, 8, spilled=256)
    elif pattern.accumulators > 1:
        yield from (_Shape(64, 128, 2, 4),) if width <= 64 else ()
        yield from (_Shape(64, 64, 2, 4, spilled=256), _Shape(64, 32, 3, 4))
    else:
        yield _Shape(64, 64, 2, 4)


def _exact_attentions(
    problem: TuningProblem, pattern: AttentionPattern, machine: Machine, width: int
) -> Iterator[Schedule]:
    """Yield blocks for float32 without tensor cores: small, with many warps, as threads hold both operands, too.

    Gradients hold those of twice as many products: their loops take short steps.
    """
    if pattern.is_gradient:
        for rows, warps in ((64, 8), (32, 8), (16, 4)):
            m, n = _blocks(problem, pattern, _Shape(rows, 16, 0))
            if _shared_memory(problem, pattern, m, n, width, 2) <= machine.shared_memory:
                yield problem.schedule({pattern.rows: m, pattern.keys: n}, warps, 2)
        return
    shapes = ((64, 32, 8),) if width <= 64 else ((32, 64, 8),) if width <= 128 else ()
    for rows, keys, warps in (*shapes, (32, 32, 16), (32, 32, 8), (16, 16, 4)):
        m, n = _blocks(problem, pattern, _Shape(rows, keys, 0))
        for stages in range(3 if width <= 64 else 2, 0, -1):
            if _shared_memory(problem, pattern, m, n, width, stages) <= machine.shared_memory:
                yield problem.schedule({pattern.rows: m, pattern.keys: n}, warps, stages)

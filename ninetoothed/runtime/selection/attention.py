"""Blocks of attention: scores, weights and what they add up to in registers, operands in shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.selection.problem import RESERVED, Configuration, Task
from ninetoothed.runtime.sizes import evaluate, power_above


def attentions(task: Task, gpu: Machine) -> Iterator[Configuration]:
    """Blocks whose scores, weights and accumulator fit into registers, and whose operands fit into shared memory."""
    if _is_exact(task):
        yield from _exact_attentions(task, gpu)
        return
    kind = task.structure.kind
    # Registers for scores, weights and what they add up to; Hopper reads operands from shared memory.
    limit = 200 if 90 <= gpu.capability < 100 else 110 if gpu.capability < 90 else 130
    bits, width = task.bits(kind.lhs), power_above(max(evaluate(kind.width, task.values), 16))
    rows = min(128, power_above(task.extent(kind.rows)))
    while rows > 64 and task.programs({kind.rows: task.block(kind.rows, rows)}) < gpu.multiprocessors:
        rows //= 2
    general = ((rows, 64), (rows, 32), (min(rows, 64), 32), (min(rows, 32), 32), (16, 16))
    for m, n, most, fixed in (*_fine_attentions(task, gpu, rows, width), *((m, n, 3, None) for m, n in general)):
        m = task.block(kind.rows, m)
        n = task.block(kind.keys, min(n, power_above(task.extent(kind.keys))))
        # A score and a weight for each key, and what is accumulated of the width.
        warps = fixed or next((w for w in (4, 8) if m * (2 * n + width) // (32 * task.warps(w)) <= limit), None)
        for stages in range(most, 0, -1):
            needed = bits // 8 * width * (m + 2 * task.stages(stages) * n) + RESERVED
            if warps and needed <= gpu.shared_memory:
                yield task.configuration({kind.rows: m, kind.keys: n}, warps, stages)
                break


def _fine_attentions(task: Task, gpu: Machine, rows: int, width: int) -> Iterator[tuple[int, int, int, int | None]]:
    """(rows, keys, stages, warps) for Hopper: one group of warps, so that one's products hide another's exponentials.

    Of wide tiles it takes twice the rows, which halves what is copied for each. A flag that is set (a mask, a diagonal)
    costs registers for each score, and tiles that are looked at in part.
    """
    if gpu.capability // 10 != 9 or task.bits(task.structure.kind.lhs) > 16 or width > 128:
        return
    is_flagged = any(argument.value is True for argument in task.specialisation.arguments)
    if width > 64:
        many = task.programs({task.structure.kind.rows: 128}) >= 2 * gpu.multiprocessors
        if rows == 128 and many and not is_flagged:
            yield rows, 64, 2, 4
        yield min(rows, 64), 64, 3, None
    else:
        yield (min(rows, 64), 64, 3, None) if is_flagged else (min(rows, 64), 128, 2, None)


def _is_exact(task: Task) -> bool:
    """Whether products are of whole float32 numbers, which no tensor core multiplies."""
    return task.bits(task.structure.kind.lhs) == 32 and task.specialisation.dot_precision == "highest"


def _exact_attentions(task: Task, gpu: Machine) -> Iterator[Configuration]:
    """Small blocks and many warps: each thread keeps its part of both operands in registers, too."""
    kind = task.structure.kind
    width = power_above(max(evaluate(kind.width, task.values), 16))
    shapes = ((64, 32, 8),) if width <= 64 else ((32, 64, 8),) if width <= 128 else ()
    for m, n, warps in (*shapes, (32, 32, 16), (32, 32, 8), (16, 16, 4)):
        m, n = task.block(kind.rows, m), task.block(kind.keys, min(n, power_above(task.extent(kind.keys))))
        for stages in range(3 if width <= 64 else 2, 0, -1):
            if 4 * width * (m + 2 * task.stages(stages) * n) + RESERVED <= gpu.shared_memory:
                yield task.configuration({kind.rows: m, kind.keys: n}, warps, stages)

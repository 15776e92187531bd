"""Blocks of products with few rows, or few columns, on Hopper: a large operand streams past a small one.

Memory is what they wait for, so that the estimate is of bytes alone. A program keeps the loads of all but one of its
stages in flight, of which each takes a latency; what programs together ask for is bounded by what a multiprocessor
takes in, and by the bandwidth. Programs run in waves. All numbers are the machine's: `machine.StreamCosts`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ninetoothed.expr import var
from ninetoothed.expr.sizes import power_above
from ninetoothed.runtime.selection.machine import Machine, StreamCosts
from ninetoothed.runtime.selection.pattern import LoadedTile, ProductPattern
from ninetoothed.runtime.selection.problem import RESERVED, TuningProblem
from ninetoothed.schedule import Schedule, in_parts

# The most rows (or columns) that are few, and how many elements the large operand has at least along both dimensions.
FEW, MANY, DEEP = 64, 1024, 1024
_SIDES, _PARTS, _TOGETHER = (64, 128), (1, 2, 3, 4, 6, 8), (1, 2, 3, 4)
_MOST_STAGES = 8
# Estimates that differ by less are equal.
_PRECISION = 0.02


def streamed(problem: TuningProblem, pattern: ProductPattern, machine: Machine) -> Iterator[Schedule]:
    """Yield schedules that fit, the one of least estimated time first; none where no operand streams past another."""
    costs = machine.generation.streams
    few, many = sorted((pattern.rows, pattern.columns), key=problem.extent)
    is_large = problem.extent(many) >= MANY and problem.extent(pattern.depth) >= DEEP
    if costs is None or problem.extent(few) > FEW or not is_large:
        return
    short = problem.block(few, max(power_above(problem.extent(few)), 16))
    # Of equals long steps come first, and few programs together: each waits the fewest times.
    depths, fewest = ((256, 128), 3) if short < 64 else ((128,), 2)
    scored: dict[Schedule, float] = {}
    for wanted, side, together in itertools.product(depths, _SIDES, _TOGETHER):
        long, depth = problem.block(many, side), problem.block(pattern.depth, wanted)
        blocks = {few: short, many: long, pattern.depth: depth}
        step = sum(_bytes(problem, tile, blocks) for tile in pattern.tiles if _has_depth(pattern, tile))
        small = short * depth * problem.bits(pattern.lhs) // 8
        fitting = (machine.shared_memory // together - RESERVED) // step
        stages = problem.stages(max(min(fitting, _MOST_STAGES), 1))
        steps = -(-problem.extent(pattern.depth) // depth)
        stream = _Stream(machine, costs, problem.programs(blocks), together, steps, step, stages, 1 - small / step)
        for parts in _PARTS:
            if stages >= fewest and steps >= 4 * parts:
                schedule = replace(problem.schedule(blocks, 4, stages), sharing=in_parts(parts))
                scored.setdefault(schedule, stream.microseconds(parts))
    yield from sorted(scored, key=lambda schedule: round(math.log(scored[schedule]) / _PRECISION))


def _has_depth(pattern: ProductPattern, tile: LoadedTile) -> bool:
    """Tell whether a tile is loaded in each step; where several products share an operand, there are more than two."""
    return var(pattern.depth) in tile.shape


def _bytes(problem: TuningProblem, tile: LoadedTile, blocks: Mapping[str, int]) -> int:
    return problem.lanes(tile, blocks) * problem.bits(tile.parameter) // 8


@dataclass(frozen=True)
class _Stream:
    """A way to stream: so many programs, of which some run together on a multiprocessor.

    steps: those of a program, unless it does a part of them. step: bytes of one. large: the part of these that belongs
        to the large operand; the small one stays in the cache.
    """

    machine: Machine
    costs: StreamCosts
    programs: int
    together: int
    steps: int
    step: int
    stages: int
    large: float

    def microseconds(self, parts: int) -> float:
        """Estimate the time where each program does one of so many parts of its steps."""
        costs, resident = self.costs, self.machine.multiprocessors * self.together
        waves, rest = divmod(self.programs * parts, resident)
        time = costs.launch + waves * self._wave(resident, parts) + (self._wave(rest, parts) if rest else 0)
        time += (waves + (rest > 0) - 1) * costs.wave * self.step
        return time + (costs.fix_up + costs.part * parts if parts > 1 else 0)

    def _wave(self, programs: int, parts: int) -> float:
        """Estimate the time of so many programs at once."""
        in_flight = (self.stages - 1) * self.step / self.costs.latency
        intake = self.costs.intake / math.ceil(programs / self.machine.multiprocessors)
        bandwidth = self.machine.bandwidth * 1e-6 * self.costs.reached / programs / self.large
        return self.steps / parts * self.step / min(in_flight, intake, bandwidth)

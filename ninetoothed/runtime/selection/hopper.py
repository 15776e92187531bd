"""Blocks of products of 16-bit operands on Hopper: every tile, depth, pipeline and share-out, by an estimate of cycles.

The estimate is of one multiprocessor: programs that are resident together hide each other's waits, a pipeline hides as
much of the latency of its loads as it has steps in flight, and what is left over costs. Its constants were fitted to
some 2600 timed launches of 115 products on an H200, of which its pick is on average within 2 % of the fastest. Quarters
of tiles came later: they are reckoned with the same constants, and were timed at a dozen sizes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ninetoothed.expr import const
from ninetoothed.passes.remainder import Remainder
from ninetoothed.passes.remainder_subtile import FEWEST_LANES, QUARTERS
from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.selection.pattern import ProductPattern
from ninetoothed.runtime.selection.problem import RESERVED, SMALL_TILES, Configuration, TuningProblem
from ninetoothed.runtime.sizes import power_above

# (rows, columns, warps): products of 64 rows are a group of four warps, so that small tiles are the general ones, and
# large ones are tried with a group or two. Of equals the first is taken.
_TILES = (
    (128, 256, 8),
    (128, 128, 4),
    (128, 128, 8),
    (64, 256, 4),
    *SMALL_TILES,
    (16, 32, 2),
    (32, 16, 2),
    (16, 16, 1),
)
_SPLITS = (1, 2, 3, 4, 6, 8)
# The most parts of what is left over after whole waves, and of quarters of that.
_TAIL_SPLITS = (4, 8)
_QUARTER_SPLIT = 8
_MOST_STAGES = 8
_MANY_STEPS = 16
# Registers of a thread beside its accumulator.
_OTHER_REGISTERS = 45
# Multiplications and additions a cycle, and the part of their time that the widest tiles take.
_RATE, _WIDE = 1600, 0.9
# Bytes a cycle: copied whole, copied where rows start at odd multiples of 16 bytes, and gathered by the threads.
_COPY, _ODD_COPY, _GATHER = 64, 33, 40
# Cycles between a load and its use, which steps in flight hide, and of a step, which nothing hides.
_LATENCY, _ROUND_TRIP = 620, 240
# Cycles of a launch, of a wave of programs, and of one more where a program has a multiprocessor to itself.
_LAUNCH, _WAVE, _LONE_WAVE = 6500, 2800, 800
# Cycles for an element stored at the end, and behind the next tile's loads.
_STORE, _STORE_BEHIND = 0.004, 0.02
# Cycles for the parts of a sum to meet, and for an element of each.
_MEET, _PART = 8500, 0.13


def is_measured(problem: TuningProblem, pattern: ProductPattern, machine: Machine) -> bool:
    """Whether the estimate was fitted to products like this on a GPU like this."""
    operands = pattern.lhs, pattern.rhs
    are_halves = all(problem.bits(operand) == 16 and problem.is_aligned(operand) for operand in operands)
    return machine.capability // 10 == 9 and are_halves


def products(problem: TuningProblem, pattern: ProductPattern, machine: Machine) -> Iterator[Configuration]:
    """Configurations that fit, the one of least estimated time first."""
    estimated: dict[Configuration, float] = {}
    # Of equals long steps come first where there are few: each waits once. Short ones leave a deeper pipeline.
    are_few = problem.extent(pattern.depth) <= 64 * _MANY_STEPS
    for (rows, columns, warps), depth in itertools.product(
        _tiles(problem, pattern), (128, 64) if are_few else (64, 128)
    ):
        plan = _Plan.of(problem, pattern, machine, rows, columns, depth, warps)
        for each in plan.variants() if plan is not None else ():
            estimated.setdefault(each.configuration(), each.cycles())
    yield from sorted(estimated, key=lambda each: estimated[each])


def _tiles(problem: TuningProblem, pattern: ProductPattern) -> Iterator[tuple[int, int, int]]:
    """Those of at least 64 rows and columns; where a side of the product is shorter, those of just that side."""
    sides = [max(16, power_above(problem.extent(name))) for name in (pattern.rows, pattern.columns)]
    for rows, columns, warps in _TILES:
        if all(
            block >= 64 if side >= 64 else block == side for block, side in zip((rows, columns), sides, strict=True)
        ):
            yield rows, columns, warps


@dataclass(frozen=True)
class _Wave:
    """`count` waves of so many programs together on a multiprocessor, each of so many steps of a plan's."""

    count: int
    plan: _Plan
    together: int
    steps: float


@dataclass(frozen=True)
class _Plan:
    """A way to compute a product.

    programs: how many take tile after tile, 0 for a program a tile. split: the parts of each sum, or if `has_tail`, the
    most of those that are left over after whole waves; see `passes.remainder`. quarters: the stages of their loops
    if these are cut in quarters, too.
    """

    problem: TuningProblem
    pattern: ProductPattern
    machine: Machine
    rows: int
    columns: int
    depth: int
    warps: int
    stages: int = 2
    programs: int = 0
    split: int = 1
    has_tail: bool = False
    quarters: int = 0

    @classmethod
    def of(
        cls,
        problem: TuningProblem,
        pattern: ProductPattern,
        machine: Machine,
        rows: int,
        columns: int,
        depth: int,
        warps: int,
    ) -> _Plan | None:
        """With blocks and warps that the kernel may have; None where its accumulator then takes too many registers."""
        rows, columns = problem.block(pattern.rows, rows), problem.block(pattern.columns, columns)
        depth = problem.block(pattern.depth, min(depth, power_above(problem.extent(pattern.depth))))
        plan = cls(problem, pattern, machine, rows, columns, depth, problem.warps(warps))
        return plan if plan.registers <= 128 + _OTHER_REGISTERS else None

    def variants(self) -> Iterator[_Plan]:
        """With pipelines as deep as fits for some number of programs at once, and the sum in some number of parts."""
        pipelines = sorted({self._pipeline(together) for together in (4, 3, 2, 1)} | {self.problem.stages(3)})
        fitting = [
            plan for stages in pipelines if (plan := replace(self, stages=stages)).shared <= self.machine.shared_memory
        ]
        # Of equals the shallowest comes first, which starts the soonest; of many steps the deepest, which waits for the
        # fewest loads, but where tiles are stored beside the next: that takes memory, too.
        for plan in fitting:
            yield from plan.persistent()
        if self.steps > _MANY_STEPS:
            fitting.reverse()
        for plan, split in itertools.product(fitting, _SPLITS):
            if split == 1 or replace(plan, split=split).is_worth_splitting:
                yield replace(plan, split=split)
        for plan, split in itertools.product(fitting, _TAIL_SPLITS):
            tailed = replace(plan, split=split, has_tail=True)
            if tailed.is_worth_splitting:
                yield tailed
        for plan in fitting:
            quarters = self.problem.stages(max(min(2 * plan.stages - 2, _MOST_STAGES), 1))
            cut = replace(plan, split=_QUARTER_SPLIT, has_tail=True, quarters=quarters)
            if self._can_be_cut and quarters <= 2 * plan.stages and cut.is_worth_splitting:
                yield cut

    @property
    def _can_be_cut(self) -> bool:
        """Whether tiles are large, and none is a whole side of the product: in place, it would be read too late."""
        sides = (self.pattern.rows, self.rows), (self.pattern.columns, self.columns)
        return all(FEWEST_LANES <= block < self.problem.extent(name) for name, block in sides)

    def persistent(self) -> Iterator[_Plan]:
        # Where tiles are slow to copy, they are better shared out singly; long steps leave no room for the tile stored,
        # and flat tiles take more of it.
        if self._is_slow_to_copy or self.depth > 64 or not self.rows <= self.columns <= 2 * self.rows:
            return
        looping = replace(self, programs=1)
        looping = replace(looping, programs=self.machine.multiprocessors * min(looping.resident, 2))
        is_fed = looping.warps * looping.programs >= 8 * self.machine.multiprocessors
        if looping.shared <= self.machine.shared_memory and self.tiles > looping.programs and is_fed:
            yield looping

    def configuration(self) -> Configuration:
        blocks = {self.pattern.rows: self.rows, self.pattern.columns: self.columns, self.pattern.depth: self.depth}
        chosen = self.problem.configuration(blocks, self.warps, self.stages)
        at_once = self.at_once if self.has_tail else 0
        return replace(
            chosen,
            use_tma=True,
            programs=self.programs,
            split_k=self.split,
            tiles_per_wave=at_once,
            remainder_stages=self.quarters,
        )

    # -- what it takes --

    def _pipeline(self, together: int) -> int:
        fits = (self.machine.shared_memory // together - RESERVED) // self.step_bytes
        return self.problem.stages(max(min(fits, _MOST_STAGES, self.steps + 1), 3))

    @property
    def step_bytes(self) -> int:
        return (self.rows + self.columns) * self.depth * 2

    @property
    def shared(self) -> int:
        """Bytes of shared memory; with half a tile to be stored beside the stages of the next, where there is one."""
        return self.stages * self.step_bytes + RESERVED + (self.rows * self.columns if self.programs else 0)

    @property
    def registers(self) -> int:
        return self.rows * self.columns // (32 * self.warps) + _OTHER_REGISTERS

    @property
    def resident(self) -> int:
        """How many programs a multiprocessor runs at once."""
        by_registers = self.machine.registers // (self.registers * 32 * self.warps)
        # A multiprocessor has a kilobyte more than one program may take; what is reserved counts it.
        return max(1, min((self.machine.shared_memory + 1024) // self.shared, by_registers, 8))

    @property
    def at_once(self) -> int:
        return self.machine.multiprocessors * self.resident

    # -- how much it does --

    @functools.cached_property
    def tiles(self) -> int:
        return self.problem.programs(
            {self.pattern.rows: self.rows, self.pattern.columns: self.columns, self.pattern.depth: self.depth}
        )

    @property
    def steps(self) -> int:
        return -(-self.problem.extent(self.pattern.depth) // self.depth)

    @property
    def is_worth_splitting(self) -> bool:
        """Whether all parts run at once, of all tiles or of those left over, and each has some steps to do."""
        if self.has_tail:
            fits = self.tiles > self.at_once and self._shares > 1
        else:
            fits = self.tiles * self.split <= self.at_once
        return fits and self.steps >= 3 * self.parts

    @property
    def parts(self) -> int:
        """Of a sum that has parts."""
        return max(self._shares // self._pieces, 1) if self.has_tail else self.split

    @property
    def _pieces(self) -> int:
        return QUARTERS if self.quarters else 1

    @functools.cached_property
    def _shares(self) -> int:
        """How many programs do a tile left over after whole waves, or 1 where there is none."""
        tail = Remainder(const(self.tiles), self.at_once, self.split, self._pieces)
        return tail.ctas_per_tile(tail.spare, tail.is_cut(tail.spare)).constant if self.tiles % self.at_once else 1

    # -- how long that takes --

    def cycles(self) -> float:
        waves = self._waves()
        cycles = _LAUNCH + sum(each.count * each.steps * each.plan._step(each.together) for each in waves)
        if self.programs:
            return cycles + self._of_each(self.tiles) * self._area * _STORE_BEHIND
        number = sum(each.count for each in waves)
        cycles += sum(each.count * (_WAVE + each.plan._area * _STORE) for each in waves)
        cycles += (number - 1) * _LONE_WAVE * (self.resident == 1)
        if self.split == 1 or (self.has_tail and self.parts == 1):
            return cycles
        met = self.parts if self.has_tail else max(self._of_each(self.tiles * self.split), self.split)
        return cycles + _MEET + met * waves[-1].plan._area * _PART

    @property
    def _area(self) -> int:
        return self.rows * self.columns

    def _of_each(self, programs: int) -> int:
        """The most that one multiprocessor gets of so many."""
        return -(-programs // self.machine.multiprocessors)

    def _waves(self) -> list[_Wave]:
        if self.has_tail:
            whole, spare = divmod(self.tiles, self.at_once)
            shared = self._quarter if self.quarters else self
            last = shared._waves_of(spare * self._shares, self.resident, self.steps / self.parts)
            return [_Wave(whole, self, self.resident, self.steps), *last]
        together = self._of_each(self.programs) or self.resident
        return self._waves_of(self.tiles * self.split, together, self.steps / self.split)

    def _waves_of(self, programs: int, together: int, steps: float) -> list[_Wave]:
        whole, rest = divmod(self._of_each(programs), together)
        return [_Wave(whole, self, together, steps), _Wave(int(rest > 0), self, rest, steps)]

    @property
    def _quarter(self) -> _Plan:
        return replace(self, rows=self.rows // 2, columns=self.columns // 2, stages=self.quarters)

    def _step(self, together: int) -> float:
        """One step of programs that are resident together: they multiply in turn, and wait at the same time."""
        product = max(self.rows, 64) * self.columns * self.depth / _RATE
        if self.columns >= 256 and self.warps == 8:
            product *= _WIDE
        latency = _LATENCY / max(self.stages - 2, 0.7) + _ROUND_TRIP
        return max(together * product, together * self._copy, latency)

    @property
    def _copy(self) -> float:
        """Cycles to copy what a step needs."""
        sides = (self.pattern.lhs, self.rows), (self.pattern.rhs, self.columns)
        return sum(side * self.depth * 2 / self._copy_rate(operand) for operand, side in sides)

    def _copy_rate(self, operand: int) -> int:
        if self.problem.has_odd_rows(operand):
            return _ODD_COPY
        steps = self.problem.definition.parameters[operand].arrangement.steps
        return _GATHER if any(step.operation in ("flatten", "ravel") for step in steps) else _COPY

    @property
    def _is_slow_to_copy(self) -> bool:
        rates = [self._copy_rate(operand) for operand in (self.pattern.lhs, self.pattern.rhs)]
        return _GATHER in rates or rates == [_ODD_COPY, _ODD_COPY]

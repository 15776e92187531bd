"""Blocks of matrix products: tiles that fit, by an estimate of the cycles that they take."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.selection.pattern import ProductPattern
from ninetoothed.runtime.selection.problem import RESERVED, SMALL_TILES, Configuration, TuningProblem
from ninetoothed.runtime.sizes import power_above

# (rows, columns, warps): large tiles with many warps, which keeps registers free whatever the GPU and the types.
_TILES = (
    (128, 256, 8),
    (256, 128, 8),
    (128, 128, 8),
    (64, 256, 8),
    (256, 64, 8),
    *SMALL_TILES,
    (16, 16, 1),
)


def products(problem: TuningProblem, pattern: ProductPattern, machine: Machine) -> Iterator[Configuration]:
    """Tiles that fit, the one of least estimated time first."""
    bits = max(problem.bits(pattern.lhs), problem.bits(pattern.rhs))
    scored: dict[Configuration, float] = {}
    # Before Hopper operands pass through registers.
    most = 64 * (128 if machine.capability >= 90 else 32)
    is_exact = bits == 32 and problem.specialisation.dot_precision == "highest"
    for (m, n, warps), row_bytes in itertools.product(_TILES, (256, 128, 64)):
        if row_bytes == 256 and (is_exact or m * n > most):
            continue  # too few stages would fit, or too much would be unrolled
        k = row_bytes * 8 // bits
        blocks = {
            pattern.rows: problem.block(pattern.rows, m),
            pattern.columns: problem.block(pattern.columns, n),
            pattern.depth: problem.block(pattern.depth, min(k, power_above(problem.extent(pattern.depth)))),
        }
        shape = _Shape(
            blocks[pattern.rows], blocks[pattern.columns], blocks[pattern.depth], bits, problem.warps(warps), is_exact
        )
        stages = _stages(problem, pattern, shape, machine)
        if (
            shape.registers > _accumulator_registers(problem, pattern, is_exact, machine)
            or shape.shared(stages) > machine.shared_memory
        ):
            continue
        configuration = problem.configuration(blocks, shape.warps, stages)
        scored.setdefault(configuration, _cycles(problem, pattern, shape, stages, problem.programs(blocks), machine))
    yield from sorted(scored, key=lambda each: scored[each])


def _accumulator_registers(problem: TuningProblem, pattern: ProductPattern, is_exact: bool, machine: Machine) -> int:
    """How much of a thread's registers an accumulator may take, beside what the rest of the kernel keeps in them."""
    if is_exact:
        return 64
    if not (problem.is_aligned(pattern.lhs) and problem.is_aligned(pattern.rhs)):
        return 64  # Each element is loaded by itself, through registers.
    results = sum(
        {pattern.rows, pattern.columns} == set().union(*(size.variables for size in tile.shape))
        for tile in pattern.tiles
    )
    return 64 if results > 1 and machine.capability >= 100 else 128


def _stages(problem: TuningProblem, pattern: ProductPattern, shape: _Shape, machine: Machine) -> int:
    """Three for the largest tiles, four for others, as many as fit."""
    stages = problem.stages(3 if shape.rows * shape.columns >= 128 * 256 else 4)
    while not problem.definition.num_stages and stages > 2 and shape.shared(stages) > machine.shared_memory:
        stages -= 1
    return stages


@dataclass(frozen=True)
class _Shape:
    """One step of a product: (rows, depth) times (depth, columns). is_exact: float32 without tensor cores."""

    rows: int
    columns: int
    depth: int
    bits: int
    warps: int
    is_exact: bool

    @property
    def registers(self) -> int:
        """Registers of a thread for the accumulator."""
        return self.rows * self.columns // (32 * self.warps)

    @property
    def step_bytes(self) -> int:
        return (self.rows + self.columns) * self.depth * self.bits // 8

    def shared(self, stages: int) -> int:
        return stages * self.step_bytes + RESERVED

    def shared_persistent(self, stages: int) -> int:
        """With half a tile to be stored beside the stages of the next."""
        return self.shared(stages) + self.rows * self.columns * self.bits // 16

    @property
    def efficiency(self) -> float:
        """What part of the peak rate the tile reaches: small ones feed the tensor cores too slowly."""
        largest = 64 * 64 if self.is_exact else 128 * 256
        return min(1.0, 0.35 + 0.65 * math.sqrt(self.rows * self.columns / largest))


def _cycles(
    problem: TuningProblem, pattern: ProductPattern, shape: _Shape, stages: int, programs: int, machine: Machine
) -> float:
    """An estimate of the clock cycles of the busiest multiprocessor."""
    steps = -(-problem.extent(pattern.depth) // shape.depth)
    multiply = 2 * shape.rows * shape.columns * shape.depth / (_rate(machine, shape) * shape.efficiency)
    fetch = shape.step_bytes / 64  # bytes a cycle from the L2 cache
    each = -(-programs // machine.multiprocessors)
    resident = max(1, min(machine.shared_memory // shape.shared(stages), 2048 // (32 * shape.warps), 4, each))
    # A lone program waits for its loads: a round trip to memory for as many steps as are in flight.
    latency = 800 / max(stages - 1, 1) / resident
    step = max(multiply, fetch, latency) + 60
    start, end = 1500 * -(-each // resident), each * shape.rows * shape.columns / 64
    return each * steps * step + start + end


def _rate(machine: Machine, shape: _Shape) -> float:
    """Operations a cycle of one multiprocessor in dense products."""
    if shape.is_exact:
        return 256
    generation = 1 if machine.capability < 90 else 2 if machine.capability < 100 else 4
    return 2048 * generation * 16 / shape.bits


def persistent(
    problem: TuningProblem, pattern: ProductPattern, configuration: Configuration, machine: Machine
) -> Configuration | None:
    """With fewer programs than tiles, one after another; None where there are too few, or tiles are slow to copy."""
    operands = pattern.lhs, pattern.rhs
    # Rows that start at odd multiples of 16 bytes are slower to copy: tiles are then better shared out singly.
    if max(map(problem.bits, operands)) > 16 or any(map(problem.has_odd_rows, operands)):
        return None
    shared = _shape(problem, pattern, configuration).shared_persistent(configuration.num_stages)
    programs = machine.multiprocessors * max(1, min(machine.shared_memory // shared, 2))
    return replace(configuration, programs=programs) if problem.programs(configuration.blocks) > programs else None


def _shape(problem: TuningProblem, pattern: ProductPattern, configuration: Configuration) -> _Shape:
    blocks = {**problem.values, **configuration.blocks}
    bits = max(problem.bits(pattern.lhs), problem.bits(pattern.rhs))
    rows, columns, depth = (blocks[name] for name in (pattern.rows, pattern.columns, pattern.depth))
    return _Shape(rows, columns, depth, bits, configuration.num_warps, False)

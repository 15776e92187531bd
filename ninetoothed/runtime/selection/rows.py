"""Schedules of kernels of no known pattern: lane by lane, whole rows, loops, products. And of the PyTorch backend."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from ninetoothed.expr.sizes import evaluate, power_above, power_below
from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.selection.pattern import LoadedTile
from ninetoothed.runtime.selection.problem import MOST_LANES, RESERVED, SHORTEST, TuningProblem
from ninetoothed.runtime.sizes import within
from ninetoothed.schedule import DataParallel, Schedule

# Lanes of all rows that one program computes side by side: enough for its warps to have two vectors a thread.
COARSENED_LANES = 2048
# The schedulers of a multiprocessor, each of which runs warps of its own.
SCHEDULERS = 4
# Lanes of a thread in a tile of a loop, or of a whole row.
LANES = 16
# Lanes of a thread that reads windows or other small tiles whose elements lie apart: that many loads are in flight.
SCATTERED_LANES = 64
# The sides of tiles that are multiplied in a kernel of no known pattern: those that cut the grid, and those of loops.
PRODUCT_BLOCK, LOOPED_BLOCK = 64, 128
# The lanes of the largest tile that four warps multiply.
LARGE_PRODUCT = 128 * 128


def lanewise(problem: TuningProblem, machine: Machine) -> Schedule:
    """Give each thread a 16-byte vector, of elements of more than 16 bits two; whole rows get warps by their length."""
    symbols, tiles = problem.definition.meta_symbols, _most_cut(problem)
    warp, vector_bits = machine.generation.warp_size, machine.generation.vector_bits
    bits = max([problem.bits(tile.parameter) for tile in tiles], default=32)
    if problem.pattern.multiplies:
        return _products(problem, machine)
    # The lanes of a tile, the block sizes to be chosen aside.
    fixed = max([problem.lanes(tile, dict.fromkeys(symbols, 1)) for tile in tiles], default=1)
    if not symbols:
        chosen = problem.schedule({}, _row_warps(problem, fixed, machine), 3)
        return replace(chosen, sharing=DataParallel(_coarsening(problem, fixed, machine)))
    vector = vector_bits // bits
    held = vector * (2 if bits > 16 else 1)
    # Small arrays are spread over all multiprocessors, others get four warps a program.
    total = problem.programs(dict.fromkeys(symbols, 1))
    share = power_below(max(total // (machine.multiprocessors * 2), 1))
    if symbols.keys() & problem.pattern.loops.keys():
        return _loops(problem, fixed, min(4 * warp * held, max(share, warp)), machine)
    wanted = max(min(4 * warp * held, share), warp * vector)
    are_windows = problem.pattern.is_scattered and fixed > 1
    if are_windows:
        wanted = max(min(2 * warp * SCATTERED_LANES, share * fixed), warp * vector)
    blocks = _distributed(problem, max(wanted // fixed, 1), symbols)
    lanes = max([problem.lanes(tile, blocks) for tile in tiles], default=1)
    warps = lanes // (warp * held) if fixed == 1 else power_above(lanes // (warp * vector))
    if are_windows:
        warps = lanes // (warp * SCATTERED_LANES)
    return problem.schedule(blocks, max(min(warps, 16), 1), 3)


def _loops(problem: TuningProblem, fixed: int, share: int, machine: Machine) -> Schedule:
    """Cut the grid first, by about `share`, then loops into tiles for four warps, or for eight of few programs."""
    warp, loops = machine.generation.warp_size, problem.pattern.loops
    names = problem.definition.meta_symbols
    blocks = _distributed(problem, max(share // fixed, 1), [name for name in names if name not in loops])
    are_few = _are_few(problem, machine, blocks=blocks)
    warps = 2 * SCHEDULERS if are_few else SCHEDULERS
    wanted = LANES * warp * warps // (fixed * math.prod(blocks.values()))
    blocks |= _distributed(problem, max(wanted, 1), [name for name in names if name in loops])
    lanes = max([problem.lanes(tile, blocks) for tile in _most_cut(problem)], default=1)
    # Few programs leave schedulers idle: smaller tiles take as many warps, down to a fourth of the lanes a thread.
    warps = min(lanes // (LANES // 4 * warp), warps) if are_few else min(lanes // (LANES * warp), 16)
    return problem.schedule(blocks, max(warps, 1), 3)


def _products(problem: TuningProblem, machine: Machine) -> Schedule:
    """Multiply by a group of four warps, or by two for large tiles: products of no pattern that is known."""
    loops, stages = problem.pattern.loops, 3
    wanted = {name: LOOPED_BLOCK if name in loops else PRODUCT_BLOCK for name in problem.definition.meta_symbols}
    blocks = {
        name: problem.block(name, min(block, power_above(max(problem.extent(name), 1))))
        for name, block in wanted.items()
    }

    def staged() -> int:
        tiles = (tile for tile in problem.pattern.tiles if any(size.variables & loops.keys() for size in tile.shape))
        return stages * sum(problem.lanes(tile, blocks) * problem.bits(tile.parameter) // 8 for tile in tiles)

    def halve(are_looped: bool) -> bool:
        sides = [name for name in blocks if (name in loops) == are_looped and blocks[name] > SHORTEST]
        return _halve_largest(problem, blocks, sides)

    while problem.programs(blocks) < machine.multiprocessors and halve(are_looped=False):
        pass
    while staged() > machine.shared_memory - RESERVED and halve(are_looped=True):
        pass
    lanes = max([problem.lanes(tile, blocks) for tile in problem.pattern.tiles], default=1)
    return problem.schedule(blocks, 4 if lanes <= LARGE_PRODUCT else 8, stages)


def _halve_largest(problem: TuningProblem, blocks: dict[str, int], names: Collection[str]) -> bool:
    """Halve the largest of some blocks that may be smaller; tell whether there is one."""
    halves = {name: problem.block(name, blocks[name] // 2) for name in names}
    smaller = [name for name in names if halves[name] < blocks[name]]
    blocks |= {name: halves[name] for name in sorted(smaller, key=lambda name: -blocks[name])[:1]}
    return bool(smaller)


def _most_cut(problem: TuningProblem) -> list[LoadedTile]:
    """Return the tiles with the most blocks to be chosen: they are what a thread has to do, others lie beside them."""
    tiles, symbols = problem.pattern.tiles, problem.definition.meta_symbols
    blocks = [len(symbols.keys() & frozenset().union(*(size.variables for size in tile.shape))) for tile in tiles]
    return [tile for tile, count in zip(tiles, blocks, strict=True) if count == max(blocks)]


def _row_warps(problem: TuningProblem, lanes: int, machine: Machine) -> int:
    """Choose warps for some 16 lanes a thread, and more lanes where there would be too many threads.

    Few programs leave schedulers idle: each gets a warp for every scheduler of a multiprocessor where that leaves a
    thread two lanes, unless rows are summed in the same order in every batch.
    """
    generation = machine.generation
    warps = min(max(power_above(lanes // (LANES * generation.warp_size)), 1), generation.most_warps)
    if _are_rows_alike(problem) or not _are_few(problem, machine):
        return warps
    return max(warps, min(lanes // (2 * generation.warp_size), SCHEDULERS))


def _coarsening(problem: TuningProblem, lanes: int, machine: Machine) -> int:
    """Choose how many programs are done side by side: as many as fit, or are along the last axis; else one.

    Rows of other lengths then get the same number, so that there are few variants. Of whole rows along one axis, it is
    no matter how many there are.
    """
    if problem.definition.num_warps or problem.pattern.loops:
        return 1
    count = power_below(max(COARSENED_LANES // lanes, 1))
    if _are_rows_alike(problem):
        return count
    count = min(count, power_above(next((extent for extent in reversed(_extents(problem)) if extent > 1), 1)))
    return 1 if _are_few(problem, machine, count) else count


def _are_rows_alike(problem: TuningProblem) -> bool:
    """Tell whether whole rows lie along one axis: each is then summed in the same order in every batch."""
    extents = _extents(problem)
    in_tiles = {name for tile in problem.pattern.tiles for size in tile.shape for name in size.variables}
    return len(extents) == 1 and bool(in_tiles & problem.sizes.keys())


def _extents(problem: TuningProblem) -> list[int]:
    return [evaluate(extent, problem.values) for extent in problem.pattern.grid if extent != 1]


def _are_few(
    problem: TuningProblem, machine: Machine, together: int = 1, blocks: Mapping[str, int] = MappingProxyType({})
) -> bool:
    """Tell whether there are fewer than two programs a multiprocessor, each of which does the work of so many."""
    return problem.programs(blocks) < 2 * machine.multiprocessors * together


def _distributed(problem: TuningProblem, wanted: int, names: Collection[str]) -> dict[str, int]:
    """Choose block sizes whose product is about `wanted`, the last dimensions (which lie closest in memory) first.

    Tiles of scattered elements get as few rows as there may be: of such, Triton before 3.9 lets a warp read a column.
    """
    shapes = (reversed(tile.shape) for tile in problem.pattern.tiles)
    order = [name for shape in shapes for size in shape for name in names if name in size.variables]
    blocks: dict[str, int] = {}
    for name in dict.fromkeys([*order, *names]):
        remaining = len(names) - len(blocks)
        is_whole = remaining == 1 or problem.pattern.is_scattered
        part = wanted if is_whole else min(wanted, max(128, round(wanted ** (1 / remaining))))
        extent = power_above(max(problem.extent(name), 1))
        blocks[name] = problem.block(name, min(power_below(max(part, 1)), extent))
        wanted = max(wanted // blocks[name], 1)
    return blocks


def on_cpu(problem: TuningProblem) -> Schedule:
    """Choose few and large blocks, but not so large that much of the last one is empty."""
    blocks = {}
    for name, symbol in problem.definition.meta_symbols.items():
        extent = problem.extent(name)
        least = 2 if name in problem.work.loops or len(problem.definition.meta_symbols) > 1 else 1
        blocks[name] = within(symbol, power_below(max(extent // least, 1)))
    while max((problem.lanes(tile, blocks) for tile in problem.work.tiles), default=1) > MOST_LANES:
        if not _halve_largest(problem, blocks, blocks):
            break
    return Schedule(tuple(blocks.items()))

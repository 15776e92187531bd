"""Schedules of kernels without products: lane by lane, or whole rows at once. And those of the PyTorch backend."""

from __future__ import annotations

from dataclasses import replace

from ninetoothed.expr.sizes import evaluate, power_above, power_below
from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.selection.pattern import LoadedTile
from ninetoothed.runtime.selection.problem import MOST_LANES, TuningProblem, within
from ninetoothed.schedule import DataParallel, Schedule

# Lanes of all rows that one program computes side by side: enough for its warps to have two vectors a thread.
COARSENED_LANES = 2048
# The schedulers of a multiprocessor, each of which runs warps of its own.
SCHEDULERS = 4

# The sides of tiles that are multiplied in a kernel of no known pattern, and the lanes of a result for eight warps.
PRODUCT_BLOCK, LARGE_PRODUCT = 64, 128 * 128


def lanewise(problem: TuningProblem, machine: Machine) -> Schedule:
    """Give each thread a 16-byte vector, of elements of more than 16 bits two; whole rows get warps by their length."""
    symbols, tiles = problem.definition.meta_symbols, _most_cut(problem)
    warp, vector_bits = machine.generation.warp_size, machine.generation.vector_bits
    bits = max([problem.bits(tile.parameter) for tile in tiles], default=32)
    if problem.definition.multiplies:
        return _products(problem)
    # The lanes of a tile, the block sizes to be chosen aside.
    fixed = max([problem.lanes(tile, dict.fromkeys(symbols, 1)) for tile in tiles], default=1)
    if not symbols:
        chosen = problem.schedule({}, _row_warps(problem, fixed, machine), 3)
        return replace(chosen, sharing=DataParallel(_coarsening(problem, fixed, machine)))
    vector = vector_bits // bits
    held = vector * (2 if bits > 16 else 1)
    # Small arrays are spread over all multiprocessors, others get four warps a program. Loops are not spread.
    total = problem.programs(dict.fromkeys(symbols, 1))
    share = power_below(max(total // (machine.multiprocessors * 2), 1))
    is_spread = not symbols.keys() <= problem.pattern.loops.keys()
    wanted = max(min(4 * warp * held, share), warp * vector) if is_spread else 4 * warp * held
    blocks = _distributed(problem, max(wanted // fixed, 1))
    lanes = max([problem.lanes(tile, blocks) for tile in tiles], default=1)
    warps = lanes // (warp * held) if fixed == 1 else power_above(lanes // (warp * vector))
    return problem.schedule(blocks, max(min(warps, 16), 1), 3)


def _products(problem: TuningProblem) -> Schedule:
    """Multiply by a group of four warps, or by two for large tiles: products of no pattern that is known."""
    names = problem.definition.meta_symbols
    blocks = {
        name: problem.block(name, min(PRODUCT_BLOCK, power_above(max(problem.extent(name), 1)))) for name in names
    }
    lanes = max([problem.lanes(tile, blocks) for tile in problem.pattern.tiles], default=1)
    return problem.schedule(blocks, 4 if lanes < LARGE_PRODUCT else 8, 3)


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
    warps = min(max(power_above(lanes // (16 * generation.warp_size)), 1), generation.most_warps)
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


def _are_few(problem: TuningProblem, machine: Machine, together: int = 1) -> bool:
    """Tell whether there are fewer than two programs a multiprocessor, each of which does the work of so many."""
    return problem.programs({}) < 2 * machine.multiprocessors * together


def _distributed(problem: TuningProblem, wanted: int) -> dict[str, int]:
    """Choose block sizes whose product is about `wanted`, the last dimensions (which lie closest in memory) first."""
    names = list(problem.definition.meta_symbols)
    shapes = (reversed(tile.shape) for tile in problem.pattern.tiles)
    order = [name for shape in shapes for size in shape for name in names if name in size.variables]
    blocks: dict[str, int] = {}
    for name in dict.fromkeys([*order, *names]):
        remaining = len(names) - len(blocks)
        part = wanted if remaining == 1 else min(wanted, max(128, round(wanted ** (1 / remaining))))
        extent = power_above(max(problem.extent(name), 1))
        blocks[name] = problem.block(name, min(power_below(max(part, 1)), extent))
        wanted = max(wanted // blocks[name], 1)
    return blocks


def on_cpu(problem: TuningProblem) -> Schedule:
    """Choose few and large blocks, but not so large that much of the last one is empty."""
    blocks = {}
    for name, symbol in problem.definition.meta_symbols.items():
        extent = problem.extent(name)
        least = 2 if name in problem.pattern.loops or len(problem.definition.meta_symbols) > 1 else 1
        blocks[name] = within(symbol, power_below(max(extent // least, 1)))
    while max((problem.lanes(tile, blocks) for tile in problem.pattern.tiles), default=1) > MOST_LANES:
        halves = {name: problem.block(name, block // 2) for name, block in blocks.items()}
        smaller = [name for name, half in halves.items() if half < blocks[name]]
        if not smaller:
            break
        largest = max(smaller, key=blocks.__getitem__)
        blocks[largest] = halves[largest]
    return Schedule(tuple(blocks.items()))

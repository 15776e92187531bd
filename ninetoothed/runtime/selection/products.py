"""Schedules of matrix products: plans that fit, the one of least estimated time first."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from ninetoothed.expr.sizes import power_above
from ninetoothed.runtime.selection.cost_model import duration
from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.selection.pattern import ProductPattern
from ninetoothed.runtime.selection.plan import Plan, ProductProblem
from ninetoothed.runtime.selection.problem import RESERVED, TuningProblem
from ninetoothed.runtime.selection.rows import lanewise
from ninetoothed.schedule import DataParallel, Schedule, SplitK, StreamK, in_parts

# Tiles, (rows, columns, warps). These take at most 64 registers of a thread for their accumulators.
_SMALL_TILES = (
    (64, 128, 4),
    (128, 64, 4),
    (64, 64, 4),
    (32, 128, 4),
    (128, 32, 4),
    (32, 64, 4),
    (64, 32, 4),
    (32, 32, 4),
    (16, 128, 4),
    (128, 16, 4),
    (16, 64, 4),
    (64, 16, 4),
)
# Large tiles with many warps, which keeps registers free whatever the machine and the types.
_GENERAL_TILES = (
    (128, 256, 8),
    (256, 128, 8),
    (128, 128, 8),
    (64, 256, 8),
    (256, 64, 8),
    *_SMALL_TILES,
    (16, 16, 1),
)
# Products of 64 rows are a warp group's, so that large tiles are tried with one or two. Of equals the first is taken.
_WARP_GROUP_TILES = (
    (128, 256, 8),
    (128, 128, 4),
    (128, 128, 8),
    (64, 256, 4),
    *_SMALL_TILES,
    (16, 32, 2),
    (32, 16, 2),
    (16, 16, 1),
)
# Parts of all sums; and the most parts of sums of tiles left over, and of their subtiles.
_PARTS, _MOST_PARTS, _MOST_SUBTILE_PARTS = (2, 3, 4, 6, 8), (4, 8), 8
_MOST_STAGES = 8
# The most rows (or columns) that are few, and the least of the others and of the sums, where a large operand streams
# past a small one; its sides and parts, and how many programs a multiprocessor runs at once.
_FEW, _MANY, _DEEP = 64, 1024, 1024
_STREAMED_SIDES, _STREAMED_PARTS, _TOGETHER = (64, 128, 32, 16), (1, 2, 3, 4, 6, 8), (1, 2, 3, 4)
# From so many steps on pipelines are deep and steps short.
_MANY_STEPS = 16


def products(problem: TuningProblem, pattern: ProductPattern, machine: Machine) -> Iterator[Schedule]:
    """Yield schedules that fit, the one of least estimated time first."""
    own, is_fitted = machine.generation.aligned_halves, False
    for schedule, plan in estimated(problem, pattern, machine):
        is_fitted = is_fitted or plan.product.costs is own
        yield schedule
    if is_fitted:
        return
    product = ProductProblem(problem, pattern, machine, machine.generation.products)
    for plan in _ranked(_general_plans(product)) or [_fallback(product)]:
        if machine.generation.has_tma and 0 not in problem.sizes.values() and _may_be_persistent(plan):
            yield plan.persistent().schedule()
        yield plan.schedule()


def estimated(problem: TuningProblem, pattern: ProductPattern, machine: Machine) -> Iterator[tuple[Schedule, Plan]]:
    """Yield the plans whose costs were fitted to timed launches, with their schedules, the fastest first."""
    generation = machine.generation
    are_halves = all(problem.bits(operand) == 16 and problem.is_aligned(operand) for operand in pattern.operands)
    if generation.aligned_halves is None or not are_halves or 0 in problem.sizes.values():
        return
    if generation.streams is not None:
        # A tile has all rows (or columns): there is nothing to group for L2.
        for plan in _ranked(_streams(ProductProblem(problem, pattern, machine, generation.streams))):
            yield replace(plan.schedule(), group_rows=1), plan
    for plan in _ranked(_all_plans(ProductProblem(problem, pattern, machine, generation.aligned_halves))):
        yield plan.schedule(), plan


def _ranked(plans: Iterator[Plan]) -> list[Plan]:
    """Sort plans by their estimated time; of equals the first comes first, with the parts that are the fastest."""
    estimated: dict[Plan, tuple[float, int, float]] = {}
    whole: dict[Plan, int] = {}
    for plan in plans:
        if plan not in estimated:
            time, precision = duration(plan), plan.product.costs.precision
            position = whole.setdefault(replace(plan, sharing=DataParallel()), len(whole)) if precision else 0
            estimated[plan] = (round(math.log(time) / precision) if precision else time), position, time
    return sorted(estimated, key=lambda plan: estimated[plan])


# -- where costs were not fitted: tiles alone are compared --


def _general_plans(product: ProductProblem) -> Iterator[Plan]:
    """Yield tiles with one pipeline each, of three stages for the largest and of four for others, or as many as fit."""
    problem = product.problem
    for (rows, columns, warps), row_bytes in itertools.product(_GENERAL_TILES, (256, 128, 64)):
        if row_bytes == 256 and (product.is_exact or rows * columns > product.machine.generation.most_deep_area):
            continue  # Too few stages would fit, or too much would be unrolled.
        plan = Plan.of(product, rows, columns, row_bytes * 8 // product.bits, warps)
        if plan is None:
            continue
        plan = replace(plan, stages=problem.stages(3 if plan.area >= 128 * 256 else 4))
        while not problem.definition.num_stages and plan.stages > 2 and not plan.fits:
            plan = replace(plan, stages=plan.stages - 1)
        if plan.fits:
            yield plan


def _fallback(product: ProductProblem) -> Plan:
    """Return a plan of modest blocks, for which registers or shared memory may not suffice: compiling will tell."""
    chosen = lanewise(product.problem, product.machine)
    blocks = {**product.problem.values, **chosen.blocks}
    sides = product.pattern.rows, product.pattern.columns, product.pattern.depth
    rows, columns, depth = (blocks[name] for name in sides)
    return Plan(product, rows, columns, depth, chosen.num_warps, chosen.num_stages)


def _may_be_persistent(plan: Plan) -> bool:
    """Tell whether there are more tiles than programs that take tile after tile, and tiles are not slow to copy.

    Rows that start at odd multiples of 16 bytes are: such tiles are better shared out singly.
    """
    product = plan.product
    if product.bits > 16 or any(map(product.problem.has_odd_rows, product.pattern.operands)):
        return False
    return plan.tiles > plan.persistent_programs


# -- few rows, or few columns: a large operand streams past a small one --


def _streams(product: ProductProblem) -> Iterator[Plan]:
    """Yield tiles that hold a whole side of the product; none where no operand streams past another."""
    problem, pattern = product.problem, product.pattern
    few, many = sorted((pattern.rows, pattern.columns), key=product.extent)
    if product.extent(few) > _FEW or product.extent(many) < _MANY or product.depth < _DEEP:
        return
    short = product.side(few, max(power_above(product.extent(few)), 16))
    # Of equals long steps come first, and few programs together: each waits the fewest times. Two stages of long steps
    # were up to half as slow again as estimated.
    depths = (256, 128) if short < 64 else (128,)
    # One of a tile's sides has to fill the instruction.
    sides = [side for side in _STREAMED_SIDES if max(side, short) >= 64]
    ways = list(itertools.product(depths, sides, _TOGETHER))
    if short >= 32:
        # Beside another program the pipeline of a wide tile is deep in short steps alone.
        ways += [(64, 128, together) for together in _TOGETHER[1:]]
    seen: set[Plan] = set()
    for depth, side, together in ways:
        sides_of = {few: short, many: product.side(many, side)}
        rows, columns = sides_of[pattern.rows], sides_of[pattern.columns]
        plan = Plan(product, rows, columns, problem.block(pattern.depth, depth), problem.warps(4))
        fitting = (product.machine.shared_memory // together - RESERVED) // plan.loaded_bytes
        plan = replace(plan, stages=problem.stages(max(min(fitting, _MOST_STAGES), 1)))
        for sharing in map(in_parts, _STREAMED_PARTS):
            each = replace(plan, sharing=sharing)
            if plan.stages >= depth // 128 + 1 and plan.steps >= 4 * each.parts and each not in seen:
                seen.add(each)
                yield replace(each, together=together)


# -- where costs were fitted: every tile, depth, pipeline and way to distribute tiles --


def _all_plans(product: ProductProblem) -> Iterator[Plan]:
    # Of equals long steps come first where there are few: each waits once. Short ones leave a deeper pipeline.
    depths = (128, 64) if product.depth <= 64 * _MANY_STEPS else (64, 128)
    for (rows, columns, warps), depth in itertools.product(_tiles(product), depths):
        plan = Plan.of(product, rows, columns, depth, warps)
        if plan is not None:
            yield from _variants(plan)


def _tiles(product: ProductProblem) -> Iterator[tuple[int, int, int]]:
    """Yield tiles of at least 64 rows and columns; where a side of the product is shorter, those of just that side."""
    pattern = product.pattern
    sides = [max(16, power_above(product.extent(name))) for name in (pattern.rows, pattern.columns)]
    for rows, columns, warps in _WARP_GROUP_TILES:
        pairs = zip((rows, columns), sides, strict=True)
        if all(block >= 64 if side >= 64 else block == side for block, side in pairs):
            yield rows, columns, warps


def _variants(plan: Plan) -> Iterator[Plan]:
    """Yield a plan with each pipeline that is as deep as fits for some programs at once, and each way of sharing."""
    problem = plan.product.problem
    pipelines = sorted({_stages(plan, together) for together in (4, 3, 2, 1)} | {problem.stages(3)})
    fitting = [each for stages in pipelines if (each := replace(plan, stages=stages)).fits]
    # Of equals the shallowest comes first, which starts the soonest; of many steps the deepest, which waits for the
    # fewest loads, but where tiles are stored beside the next: that takes memory, too.
    yield from (each.persistent() for each in fitting if _is_fed_persistent(each))
    if plan.steps > _MANY_STEPS:
        fitting.reverse()
    for each in fitting:
        yield each
        shared = (replace(each, sharing=SplitK(parts)) for parts in _PARTS)
        yield from (split for split in shared if split.is_worth_sharing)
    for each, most in itertools.product(fitting, _MOST_PARTS):
        left_over = replace(each, sharing=StreamK(each.tiles_per_wave, most))
        if left_over.is_worth_sharing:
            yield left_over
    for each in fitting:
        stages = problem.stages(max(min(2 * each.stages - 2, _MOST_STAGES), 1))
        cut = replace(each, sharing=StreamK(each.tiles_per_wave, _MOST_SUBTILE_PARTS, stages))
        if plan.can_be_cut and stages <= 2 * each.stages and cut.is_worth_sharing:
            yield cut


def _stages(plan: Plan, together: int) -> int:
    """Return the stages of the deepest pipeline with which so many programs are resident together."""
    fits = (plan.product.machine.shared_memory // together - RESERVED) // plan.step_bytes
    return plan.product.problem.stages(max(min(fits, _MOST_STAGES, plan.steps + 1), 3))


def _is_fed_persistent(plan: Plan) -> bool:
    """Tell whether persistent programs are kept busy: tiles quick to copy, and more of them than enough programs.

    Long steps leave no room for the tile that is stored, and flat tiles take more of it.
    """
    product, costs = plan.product, plan.product.costs
    is_slow_to_copy = costs.gather in product.copy_rates or product.copy_rates == (costs.odd_copy, costs.odd_copy)
    if is_slow_to_copy or plan.depth > 64 or not plan.rows <= plan.columns <= 2 * plan.rows:
        return False
    programs = plan.persistent_programs
    is_fed = plan.warps * programs >= 8 * product.machine.multiprocessors
    return plan.persistent().fits and plan.tiles > programs and is_fed

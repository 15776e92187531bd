"""The cost model of products: how long a plan keeps the busiest multiprocessor.

Programs come in waves. Those that are resident together multiply in turn and hide each other's waits; a pipeline hides
as much of the latency of its loads as it has steps in flight; what programs load together is bounded by what a
multiprocessor takes in and by the bandwidth of memory; and what is left over after whole waves costs. All numbers are
the machine's: `machine.ProductCosts`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ninetoothed.runtime.selection.plan import Plan
from ninetoothed.schedule import Persistent, SplitK, StreamK

# Areas of the tiles that feed the multipliers best: tensor cores, and those of float32.
_BEST_AREA, _BEST_EXACT_AREA = 128 * 256, 64 * 64


@dataclass(frozen=True)
class Wave:
    """`count` waves of so many programs of a plan, so many together on a multiprocessor, each of so many steps."""

    count: float
    plan: Plan
    programs: int
    together: int
    steps: float


def duration(plan: Plan) -> float:
    """Estimate the time from the launch of a plan to its end, in the unit of its costs."""
    costs, waves = plan.product.costs, waves_of(plan)
    total = costs.launch + sum(wave.count * wave.steps * _step(wave) for wave in waves)
    stored = plan.product.per_multiprocessor(plan.tiles) * plan.area
    if isinstance(plan.sharing, Persistent):
        return total + stored * costs.store_behind
    number = sum(math.ceil(wave.count) for wave in waves)
    total += sum(math.ceil(wave.count) * (costs.wave + wave.plan.area * costs.wave_store) for wave in waves)
    total += stored * costs.store + (number - 1) * costs.lone_wave * (plan.resident == 1)
    total += costs.refill * plan.loaded_bytes / plan.resident if costs.refill and number > 1 else 0
    return total + _fix_up(plan, waves[-1].plan.area)


def bound_by(plan: Plan) -> str:
    """Name what bounds most of a plan's steps."""
    wave = max(waves_of(plan), key=lambda each: each.count * each.steps * _step(each))
    together, costs = wave.together, plan.product.costs
    latency = costs.latency / max(wave.plan.stages - costs.stages_in_use, costs.least_hidden) + costs.round_trip
    names = ("multiplications", "copies to shared memory", "latency", "intake of a multiprocessor", "L2", "memory")
    bounds = (together * _multiply(wave.plan), together * _copy(wave.plan), latency)
    found = (*bounds, *_loads(wave.plan, wave.programs, together))
    return max(zip(found, names, strict=False))[1]


def waves_of(plan: Plan) -> list[Wave]:
    """Return the waves of a plan, the last of which may be smaller."""
    match plan.sharing:
        case StreamK(tiles_per_wave):
            whole, spare = divmod(plan.tiles, tiles_per_wave)
            rest = _waves(plan.subtile, spare * plan.ctas_per_tile, plan.resident, plan.steps / plan.parts)
            return [Wave(whole, plan, tiles_per_wave, plan.resident, plan.steps), *rest]
        case Persistent(programs):
            return _waves(plan, plan.tiles, plan.product.per_multiprocessor(programs), plan.steps)
    return _waves(plan, plan.tiles * plan.parts, plan.resident, plan.steps / plan.parts)


def _waves(plan: Plan, programs: int, together: int, steps: float) -> list[Wave]:
    product = plan.product
    if not product.costs.is_fitted:  # The last wave takes as long as it is full.
        each = product.per_multiprocessor(programs)
        together = min(together, each)
        return [Wave(each / together, plan, programs, together, steps)]
    at_once = product.machine.multiprocessors * together
    whole, rest = divmod(programs, at_once)
    last = Wave(int(rest > 0), plan, rest, product.per_multiprocessor(rest), steps)
    return [Wave(whole, plan, at_once, together, steps), last]


def _step(wave: Wave) -> float:
    """Estimate a step of programs that are resident together: they multiply in turn, and wait at the same time."""
    plan, together, costs = wave.plan, wave.together, wave.plan.product.costs
    hidden = max(plan.stages - costs.stages_in_use, costs.least_hidden)
    latency = costs.latency / hidden + costs.round_trip
    bounds = (together * _multiply(plan), together * _copy(plan), latency, *_loads(plan, wave.programs, together))
    return joined(bounds, costs.sharpness) + together * costs.issue


def joined(bounds: tuple[float, ...], sharpness: float) -> float:
    """Return the time of what is bounded by several things at once: the longest, and more where others are near it."""
    longest = max(bounds)
    if math.isinf(sharpness):
        return longest
    return longest * sum((bound / longest) ** sharpness for bound in bounds) ** (1 / sharpness)


def _loads(plan: Plan, programs: int, together: int) -> tuple[float, ...]:
    """Estimate how long a multiprocessor, L2 and memory take for the loads of a step; the small operand is cached.

    Nothing of these where memory is not counted.
    """
    product, costs = plan.product, plan.product.costs
    if not costs.reached:
        return ()
    problem, pattern = product.problem, product.pattern
    small = plan.blocks[min((pattern.rows, pattern.columns), key=problem.extent)]
    streamed = plan.loaded_bytes - small * plan.depth * problem.bits(pattern.lhs) // 8
    bandwidth = product.machine.bandwidth * costs.unit * costs.reached
    loaded = plan.loaded_bytes
    return together * loaded / costs.intake, programs * loaded / costs.shared_intake, programs * streamed / bandwidth


def _multiply(plan: Plan) -> float:
    """Estimate the multiplications of a step of one program."""
    product, costs = plan.product, plan.product.costs
    rate = costs.exact_rate if product.is_exact else costs.rate * 16 / product.bits
    fullness = min(plan.area / (_BEST_EXACT_AREA if product.is_exact else _BEST_AREA), 1)
    least = costs.small_tile_efficiency
    rate *= least + (1 - least) * math.sqrt(fullness)
    needed = max(plan.rows, costs.least_rows) * plan.columns * plan.depth / rate
    return needed * (costs.wide if plan.columns >= 256 and plan.warps == 8 else 1)


def _copy(plan: Plan) -> float:
    """Estimate the copies of a step of one program."""
    sides = zip((plan.rows, plan.columns), plan.product.copy_rates, strict=True)
    return sum(side * plan.depth * plan.product.bits / 8 / rate for side, rate in sides)


def _fix_up(plan: Plan, area: int) -> float:
    """Estimate how long the parts of sums take to meet, and the last program to add them up."""
    costs, product = plan.product.costs, plan.product
    match plan.sharing:
        case SplitK(parts):
            met = max(product.per_multiprocessor(plan.tiles * parts), parts)
        case StreamK() if plan.parts > 1:
            met = plan.parts
        case _:
            return 0
    return costs.fix_up + met * area * costs.part

"""Estimate how long a call takes, and what bounds it: by the fitted formula, or by counting the work of its program.

Products of 16-bit operands are estimated by the costs that were fitted to timed launches (`cost_model`). All else is
counted (`work`): what the multipliers, the special-function units, the lanes and the caches take of it, and memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from ninetoothed import frontend
from ninetoothed.errors import NineToothedError
from ninetoothed.runtime.requirements import answered
from ninetoothed.runtime.selection.choices import Selection
from ninetoothed.runtime.selection.cost_model import bound_by, duration, joined
from ninetoothed.runtime.selection.machine import Machine, ProductCosts
from ninetoothed.runtime.selection.pattern import ProductPattern
from ninetoothed.runtime.selection.plan import Plan, ProductProblem
from ninetoothed.runtime.selection.problem import TuningProblem
from ninetoothed.runtime.selection.products import estimated
from ninetoothed.runtime.selection.ranking import rounded
from ninetoothed.runtime.selection.work import Work, work_of
from ninetoothed.schedule import Schedule


@dataclass(frozen=True)
class Estimate:
    """Microseconds that a call is estimated to take, and what bounds them.

    limit: "most" or "least" where data decide how often a loop runs, and that is what it was counted as; else "exact".
    costs: those of the formula; None where the work was counted.
    """

    time: float
    bound_by: str
    limit: str = "exact"
    costs: ProductCosts | None = None

    def __str__(self) -> str:
        return {"exact": "", "most": "up to ", "least": "at least "}[self.limit] + microseconds(self.time)


@dataclass(frozen=True)
class Roofline:
    """Microseconds below which no schedule can go: to move the tensors once, to multiply, for special functions."""

    moving: float
    multiplying: float
    special: float

    @property
    def time(self) -> float:
        """The least time: what bounds most."""
        return max(self.moving, self.multiplying, self.special)


def microseconds(time: float) -> str:
    """Write a time."""
    return f"{time:.3g} us" if time < 1000 else f"{time:,.0f} us"


class Estimates:
    """The estimates of the schedules of one call, by the schedules."""

    def __init__(self, selection: Selection, gpu: Machine):
        self._selection, self._gpu = selection, gpu
        self._plans = _plans(selection, gpu)

    def of(self, schedule: Schedule) -> Estimate | None:
        """Estimate the call with a schedule; None where it cannot have that."""
        plan = self._plans.get(_key(schedule))
        if plan is not None:
            costs = plan.product.costs
            return Estimate(duration(plan) * costs.unit * 1e6, bound_by(plan), costs=costs)
        work = self._work(schedule)
        return None if work is None else counted(work, self._gpu, schedule)

    def roofline(self) -> Roofline:
        """Tell the least time of the call."""
        work = self._work(self._selection.schedule)
        assert work is not None
        return roofline(work, self._gpu)

    def _work(self, schedule: Schedule) -> Work | None:
        """Count the work of a schedule, by the program as it is traced."""
        try:
            chosen = self._selection.choices.fit(schedule, self._selection.values)
            definition, values = chosen.choices.plan.definition, chosen.values
            known = replace(chosen.specialisation, dot_precision=chosen.choices.key[0].dot_precision)
            program = frontend.trace(definition, known, partial(answered, definition, values))
        except NineToothedError:
            return None
        return work_of(program, values)


def _plans(selection: Selection, gpu: Machine) -> Mapping[Schedule, Plan]:
    """Return the plans of a product whose costs are fitted, by their schedules, for just the sizes of the call.

    Those of its class are ranked, whose sizes are rounded.
    """
    definition, found = selection.choices.plan.definition, dict[Schedule, Plan]()
    own = TuningProblem(definition, selection.specialisation, selection.values)
    if isinstance(own.pattern, ProductPattern):
        sizes = {name: rounded(value) for name, value in selection.values.items()}
        of_class = TuningProblem(definition, selection.specialisation, sizes)
        for schedule, plan in estimated(of_class, own.pattern, gpu):
            product = ProductProblem(own, own.pattern, gpu, plan.product.costs)
            found.setdefault(_key(schedule), replace(plan, product=product))
    return found


def _key(schedule: Schedule) -> Schedule:
    return replace(schedule, use_tma=frozenset())


def counted(work: Work, gpu: Machine, schedule: Schedule) -> Estimate:
    """Estimate a launch by its work: the busiest multiprocessor's, and memory's for all."""
    if not work.programs:
        return Estimate(0, "nothing: it is not launched")
    bounds, costs = _bounds(work, gpu, schedule), gpu.generation.work
    launch, rest = costs.launch * 1e6, joined(tuple(bounds.values()), costs.sharpness) if any(bounds.values()) else 0
    longest = max(bounds, key=lambda name: bounds[name])
    return Estimate(launch + rest, longest if rest > launch else "launch", work.limit)


def _bounds(work: Work, gpu: Machine, schedule: Schedule) -> dict[str, float]:
    """Return the microseconds that each part of a GPU takes; parts of a sum are programs of their own."""
    costs, parts = gpu.generation.work, schedule.parts
    busiest = -(-work.programs * parts // gpu.multiprocessors) / parts
    cycle = busiest / gpu.clock * 1e6
    return {
        "multiplications": cycle * _multiplying(work, gpu, _product_costs(gpu).least_rows),
        "exponentials": cycle * work.special / costs.special,
        "arithmetic": cycle * work.arithmetic / gpu.lanes,
        "loads and stores": cycle * work.copied / costs.copied,
        "memory": work.moved / (gpu.bandwidth * costs.reached) * 1e6,
    }


def _product_costs(gpu: Machine) -> ProductCosts:
    return gpu.generation.aligned_halves or gpu.generation.products


def _multiplying(work: Work, gpu: Machine, least_rows: int) -> float:
    """Return the cycles that the multipliers take for a program; of few rows as many as for the least."""
    costs, cycles = _product_costs(gpu), 0.0
    for kind, count in work.products.items():
        if kind.is_exact:
            cycles += count / (gpu.lanes * 32 / kind.bits)
        else:
            rate = costs.rate * gpu.products * 16 / kind.bits
            cycles += count * max(kind.rows, least_rows) / kind.rows / rate
    return cycles


def roofline(work: Work, gpu: Machine) -> Roofline:
    """Tell the least time of a launch, whose programs keep all multiprocessors as busy."""
    share, costs = work.programs / gpu.multiprocessors / gpu.clock * 1e6, _product_costs(gpu)
    is_exact = any(kind.is_exact for kind in work.products)
    multiplying = share * _multiplying(work, gpu, 1) * (1 if is_exact else min(costs.wide, 1))
    return Roofline(work.moved / gpu.bandwidth * 1e6, multiplying, share * work.special / gpu.generation.work.special)

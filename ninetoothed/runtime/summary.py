"""Summarise how a call is compiled, for users: what was chosen and what else, guards, and what the code takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ninetoothed import ir
from ninetoothed.expr import as_expr
from ninetoothed.expr.sizes import evaluate
from ninetoothed.passes.operations import is_dot
from ninetoothed.runtime.compilation.compile import CompiledKernel
from ninetoothed.runtime.selection.cost_model import bound_by, duration
from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.selection.pattern import ProductPattern
from ninetoothed.runtime.selection.plan import Plan
from ninetoothed.runtime.selection.problem import TuningProblem
from ninetoothed.runtime.selection.products import estimated
from ninetoothed.runtime.selection.ranking import rounded
from ninetoothed.runtime.variants import Selection
from ninetoothed.schedule import Schedule
from ninetoothed.wording import reworded


def lines(launcher: Any, selection: Selection, applied: Schedule, program: ir.Program, gpu: Machine) -> Iterator[str]:
    """Yield the lines of a summary."""
    ranked, is_measured = launcher.ranked(selection)
    plans = _plans(launcher.definition, selection, gpu)
    chosen = selection.schedule
    others = [each for each in ranked if each != chosen][:2]
    first = plans.get(_key(chosen))
    is_moving = not any(map(is_dot, ir.walk(program.body)))
    least = least_time(program, selection, gpu) if is_moving else None
    rows = [("", "configuration", "estimate", "bound by", "loses")]
    for title, schedule in (("chosen", chosen), *(("next", each) for each in others)):
        plan = plans.get(_key(schedule))
        rows.append((title, str(applied if schedule is chosen else schedule), *_estimate(plan, first, least)))
    names = launcher.definition.given_names
    told = [tuple(reworded(cell, names) for cell in row) for row in rows]
    widths = [max(len(row[column]) for row in told) for column in range(5)]
    for row in told:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
    how = "measuring chose it" if is_measured else f"the formula for the {gpu.name} ranks it first"
    yield f"why: {how} of {len(ranked)} that fit; grid {' x '.join(map(str, selection.grid)) or 'one'}"
    yield f"memory: the tensors take {least_time(program, selection, gpu):.3g} us to move once, at its bandwidth"
    yield from _guards(program)
    yield _taken(launcher, selection)


def _plans(definition: Any, selection: Selection, gpu: Machine) -> dict[Schedule, Plan]:
    sizes = {name: rounded(value) for name, value in selection.values.items()}
    problem = TuningProblem(definition, selection.specialisation, sizes)
    if not isinstance(problem.pattern, ProductPattern):
        return {}
    found: dict[Schedule, Plan] = {}
    for schedule, plan in estimated(problem, problem.pattern, gpu):
        found.setdefault(_key(schedule), plan)
    return found


def _key(schedule: Schedule) -> Schedule:
    return replace(schedule, use_tma=frozenset())


def microseconds(time: float) -> str:
    """Write a time."""
    return f"{time:.3g} us" if time < 1000 else f"{time:,.0f} us"


def _estimate(plan: Plan | None, first: Plan | None, least: float | None) -> tuple[str, str, str]:
    """Tell the estimate of a schedule; of what only moves memory, the least time."""
    if plan is None:
        return ("not modelled", "-", "-") if least is None else (f"at least {microseconds(least)}", "memory", "-")
    time, unit = duration(plan), plan.product.costs.unit
    text = microseconds(time * unit * 1e6) if unit else f"{time:,.0f} cycles"
    same = first is not None and first is not plan and first.product.costs == plan.product.costs
    loses = f"{100 * (time / duration(first) - 1):.1f} %" if same and first is not None else "-"
    return text, bound_by(plan), loses


@dataclass(frozen=True)
class Times:
    """Microseconds that a call is said to take: to move its tensors once, to multiply, and as the formula estimates.

    The last two are None where the formula does not model it.
    """

    moving: float
    multiplying: float | None
    estimate: float | None

    @property
    def roofline(self) -> float:
        """The least time: what bounds more."""
        return max(self.moving, self.multiplying or 0.0)


def times_of(definition: Any, program: ir.Program, selection: Selection, gpu: Machine) -> Times:
    """Tell how long a call takes at least, and how long it is estimated to take."""
    plan, moving = _plans(definition, selection, gpu).get(_key(selection.schedule)), least_time(program, selection, gpu)
    if plan is None or not plan.product.costs.unit:
        return Times(moving, None, None)
    product, costs = plan.product, plan.product.costs
    rate = costs.exact_rate if product.is_exact else costs.rate * 16 / product.bits / min(costs.wide, 1)
    steps = plan.tiles * plan.area * product.depth / rate / gpu.multiprocessors
    return Times(moving, steps * costs.unit * 1e6, duration(plan) * costs.unit * 1e6)


def least_time(program: ir.Program, selection: Selection, gpu: Machine) -> float:
    """Return the microseconds in which memory gives or takes each tensor once."""
    tensors = (each for each in program.parameters if each.role == "tensor")
    known = selection.values

    def elements(parameter: ir.Parameter) -> int:
        return math.prod(evaluate(as_expr(size), known) for size in parameter.sizes)

    return sum(elements(each) * each.dtype.bits / 8 for each in tensors) / gpu.bandwidth * 1e6


def _guards(program: ir.Program) -> Iterator[str]:
    """Yield the guards that are left, each once."""
    found: dict[str, None] = {}
    for operation in ir.walk(program.body):
        if isinstance(operation, ir.Load | ir.Store):
            for guard in operation.access.guards:
                index, low, high = guard.range
                told = " and ".join(
                    [
                        *([f"{index} >= {low}"] if low is not None else []),
                        *([f"{index} <= {high}"] if high is not None else []),
                    ]
                )
                found[f"guard of {operation.access.parameter}: {told}, which its sizes do not prove"] = None
    yield from found or ["guards: none, sizes and blocks prove all accesses to be in bounds"]


def _taken(launcher: Any, selection: Selection) -> str:
    for variant in launcher.variants:
        same = variant.selection.schedule == selection.schedule and isinstance(variant.compiled, CompiledKernel)
        if same and variant.selection.specialisation == selection.specialisation:
            code = variant.compiled
            return f"compiled: {code.registers} registers a thread, {code.shared} bytes shared, {code.spills} spilled"
    return "compiled: not yet; registers, shared memory and spills are told once it is"

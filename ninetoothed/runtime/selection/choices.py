"""Choose, of the schedules that a class of calls may get, the best whose blocks fit the sizes of a call.

A class is known by sizes that are rounded, and which blocks are legal by the sizes themselves: so a schedule is chosen
for each call whose sizes are new, and one class may get several. With the blocks the grid is known: the outermost shape
of each parameter, which must be one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain

from ninetoothed import ir
from ninetoothed.errors import ArgumentError, SizeError
from ninetoothed.expr import as_expr
from ninetoothed.expr.sizes import evaluate
from ninetoothed.runtime import specialise
from ninetoothed.runtime.agreement import check_agreement
from ninetoothed.runtime.conditions import check_conditions
from ninetoothed.runtime.hosts import Host
from ninetoothed.runtime.requirements import check_requirements
from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.selection.ranking import varied
from ninetoothed.runtime.specialise_plan import SpecialisationPlan
from ninetoothed.schedule import Schedule
from ninetoothed.specialisation import Specialisation


@dataclass(frozen=True)
class Selection:
    """All that decides which variant a call runs, and over how many programs.

    grid: the common outermost shape. values: every size, stride and block by name. choices: those of its class.
    """

    specialisation: Specialisation
    schedule: Schedule
    grid: tuple[int, ...]
    values: Mapping[str, int]
    choices: Choices

    @property
    def gpu(self) -> Machine | None:
        """The GPU to compile for; None where a host's backend runs the call."""
        place = self.choices.key[2]
        return place if isinstance(place, Machine) else None

    @property
    def host(self) -> Host | None:
        """The backend for tensors that are on no GPU."""
        place = self.choices.key[2]
        return place if isinstance(place, Host) else None


@dataclass(eq=False)
class Choices:
    """The schedules that a class of calls may get, the best first.

    specialisation: what is known of the class. key: that with the precision of products, the sizes, rounded, the GPU
        or the backend of a host.
    rejected: those that need more of something than the GPU has, or that spill, and why.
    learned: what tracing found that blocks must fulfil.
    is_settled: whether measuring has chosen the first.
    """

    plan: SpecialisationPlan
    specialisation: Specialisation
    key: tuple[Specialisation, tuple[tuple[str, int], ...], Machine | Host]
    schedules: tuple[Schedule, ...]
    rejected: dict[Schedule, str] = field(default_factory=dict)
    learned: tuple[ir.Requirement, ...] = ()
    is_settled: bool = False

    def choose(self, values: Mapping[str, int]) -> Selection:
        """Return the best for a call; `SizeError` where its sizes do not fit together, or for no blocks."""
        best = next(chain(self.fitting(values), self._legal(values)), None)
        return best or self.fit(self.schedules[0], values)

    def fitting(self, values: Mapping[str, int]) -> Iterator[Selection]:
        """Yield those that fit a call and were not rejected, the best first."""
        return (fit for fit in self._legal(values) if fit.schedule not in self.rejected)

    def candidates(self, values: Mapping[str, int]) -> tuple[Schedule, ...]:
        """Return the schedules for a call, the chosen one first."""
        return tuple(fit.schedule for fit in self.fitting(values))

    def _legal(self, values: Mapping[str, int]) -> Iterator[Selection]:
        """Yield the schedules whose blocks fit the sizes of a call; where none does, others with such blocks."""
        is_any = False
        for fit in self._fits(self.schedules, values):
            is_any = True
            yield fit
        if not is_any:
            names = self.plan.decisive.union(*map(_names, self.learned))
            yield from self._fits(varied(self.plan.definition, self.schedules[0], names), values)

    def _fits(self, schedules: Iterable[Schedule], values: Mapping[str, int]) -> Iterator[Selection]:
        for schedule in schedules:
            with suppress(ArgumentError):
                yield self.fit(schedule, values)

    def fit(self, schedule: Schedule, values: Mapping[str, int]) -> Selection:
        """Return a schedule for a call; `SizeError` where its sizes do not fit together, or not for these blocks."""
        plan, values = self.plan, {**values, **schedule.blocks}
        check_conditions(plan.definition, plan.conditions, values)
        check_agreement(plan, values)
        check_requirements(plan.definition, self.learned, values)
        shapes = outermost_shapes(plan, values)
        grid = grid_of(plan, shapes)
        specialisation = specialise.with_schedule(self.specialisation, schedule, shapes, grid)
        return Selection(specialisation, schedule, grid, values, self)

    def learn(self, error: SizeError) -> None:
        """Choose other blocks for calls whose sizes tracing found not to fit with these; raise where none can help."""
        found = error.requirement
        if found is None or found in self.learned or not _names(found) & self.plan.definition.meta_symbols.keys():
            raise error
        self.learned = (*self.learned, found)

    def reject(self, schedule: Schedule, values: Mapping[str, int], why: str) -> bool:
        """Choose the next best for calls like this one; False, and the same again, where there is none."""
        self.rejected[schedule] = why
        if next(self.fitting(values), None) is None:
            del self.rejected[schedule]
            return False
        return True

    def settle(self, schedule: Schedule) -> None:
        """Let calls get a schedule from now on."""
        self.schedules = (schedule, *(each for each in self.schedules if each != schedule))
        self.rejected.pop(schedule, None)
        self.is_settled = True


def _names(requirement: ir.Requirement) -> frozenset[str]:
    return requirement.left.variables | requirement.right.variables


def outermost_shapes(plan: SpecialisationPlan, values: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Compute the outermost shape of every parameter that says how many programs there are.

    Scalars do not, and neither do parameters that the application never touches.
    """
    return {
        parameter.name: tuple(evaluate(as_expr(size), values) for size in parameter.outermost)
        for parameter, role in zip(plan.definition.parameters, plan.roles, strict=True)
        if parameter.part_of is None and (role == "tensor" or (role == "scalar" and parameter.outermost))
    }


def grid_of(plan: SpecialisationPlan, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the common outermost shape, one program an element.

    Raises `ArgumentError` naming two parameters whose shapes differ beyond dimensions of size 1, and for more than
    2^31 - 1 programs.
    """
    definition = plan.definition
    if not shapes:
        return ()
    first, reference = next(iter(shapes.items()))
    for name, shape in shapes.items():
        if _without_ones(shape) != _without_ones(reference):
            raise SizeError(
                f"kernel `{definition.name}`: the outermost shapes of parameters `{first}` {reference} and `{name}` "
                f"{shape} differ; each of their elements is one program: arrange both into as many tiles (sizes of 1 "
                "aside), repeat by `expand` what several programs read, or pass tensors whose sizes agree",
                (first, name),
            )
    if math.prod(reference) > 2**31 - 1:
        raise ArgumentError(
            f"kernel `{definition.name}`: the outermost shape {reference} of parameter `{first}` makes "
            f"{math.prod(reference)} programs, more than 2^31 - 1; arrange it into larger tiles"
        )
    return reference


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)

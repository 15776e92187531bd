"""Variants of a kernel: select the one that a call needs, trace it, and remember those that were compiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

from ninetoothed import dtypes, frontend, ir, passes
from ninetoothed.definition import KernelDefinition
from ninetoothed.effects import stored, touched
from ninetoothed.errors import ApplicationError, SizeError
from ninetoothed.expr import const
from ninetoothed.free_names import FreeName
from ninetoothed.passes import support
from ninetoothed.passes.report import dump
from ninetoothed.races import Footprints
from ninetoothed.runtime import specialise
from ninetoothed.runtime.arguments import BoundCall
from ninetoothed.runtime.build.target import target_of
from ninetoothed.runtime.private import matmul_precision
from ninetoothed.runtime.requirements import check_races, check_requirements, explained
from ninetoothed.runtime.selection import ranking
from ninetoothed.runtime.selection.choices import Choices
from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.sizes import measure
from ninetoothed.runtime.specialise_plan import SpecialisationPlan
from ninetoothed.schedule import Schedule
from ninetoothed.specialisation import Specialisation

# How many variants of a kernel are remembered, and how many schedules; the older half goes when there are more.
MOST_VARIANTS = 48
MOST_CONFIGURATIONS = 256
# How many variants are remembered that differ in the values of free names alone.
MOST_VALUES = 4


@dataclass(frozen=True)
class Selection:
    """All that decides which variant a call runs, and over how many programs.

    grid: the common outermost shape. values: every size and stride by name. gpu: the GPU to compile for; None is the
    PyTorch backend. family: the key of calls that get the same schedule.
    """

    specialisation: Specialisation
    schedule: Schedule
    grid: tuple[int, ...]
    values: Mapping[str, int]
    gpu: Machine | None = None
    family: tuple = ()


@dataclass(frozen=True)
class Variant:
    """A compiled program for a class of calls, and what launching must know of it.

    precision: that of float32 products (`matmul_precision`) under which it was traced, None where it does not matter.
    stored, touched: the parameters that it writes to; that it reads or writes. requirements: the sizes that must be
    equal in a call. footprints: what it touches of memory, None where it writes nothing.
    free_names: the names outside the application that it was traced with. compiled: the backend's result, once there is
    one.
    """

    selection: Selection
    precision: str | None
    stored: frozenset[str]
    touched: frozenset[str]
    requirements: tuple[ir.Requirement, ...] = ()
    footprints: Footprints | None = None
    free_names: tuple[FreeName, ...] = ()
    compiled: Any = None


@dataclass(frozen=True, kw_only=True)
class TracedVariant(Variant):
    """A variant with its program. It is not remembered: the compiled variant keeps what it needs of the program.

    reports: the program as it was traced, and after each pass for every backend.
    """

    program: ir.Program
    reports: tuple[passes.PassReport, ...] = ()


def trace(definition: KernelDefinition, selection: Selection) -> TracedVariant:
    """Trace a kernel for a selection. Raises `SizeError` where the call's sizes do not fit together."""
    try:
        return _traced(definition, selection)
    except SizeError as error:
        known = refined(selection, error.requirement)
        if known is None:
            raise
    return trace(definition, known)


def _traced(definition: KernelDefinition, selection: Selection) -> TracedVariant:
    """Trace a kernel, and run the passes for every backend."""
    precision, target = matmul_precision(), target_of(selection.gpu)
    specialisation = replace(selection.specialisation, dot_precision=precision)

    def check(found: tuple[ir.Requirement, ...]) -> None:
        check_requirements(definition, found, selection.values)

    try:
        traced = frontend.trace(definition, specialisation, check)
        rewritten = passes.run(traced, target, passes=passes.PORTABLE)
        program = rewritten.program
        support.check(program, target)
        check(program.requirements)
        check_races(definition, program.footprints, selection.values)
    except ApplicationError as error:
        raise explained(definition, error, selection.values) from None
    reports = (passes.PassReport("frontend", True, traced), *rewritten.reports)
    dump(f"kernel {definition.name}: the passes for every backend", reports)
    return TracedVariant(
        selection,
        precision if _has_float32_dot(program) else None,
        stored(ir.walk(program.body)),
        touched(program.body),
        program.requirements,
        program.footprints,
        program.free_names,
        program=program,
        reports=reports,
    )


def refined(selection: Selection, requirement: ir.Requirement | None) -> Selection | None:
    """Fix the sizes of an extent that is 1 here and so broadcasts, or count in 64 bits; None where neither helps.

    A class tells which sizes are 1, but not which formulas are, such as `x_size_0 - 2`, or take more than 32 bits.
    """
    specialisation = selection.specialisation
    if requirement is not None and requirement.is_width:
        return replace(selection, specialisation=specialisation.widened())
    sides = () if requirement is None else (requirement.left, requirement.right)
    ones = [side for side in sides if side.variables and side.evaluate(selection.values) == 1]
    names = frozenset[str]().union(*(side.variables for side in ones)) - specialisation.numbers.keys()
    for name in sorted(names):
        specialisation = specialisation.unified(name, const(selection.values[name]))
    return replace(selection, specialisation=specialisation) if names else None


Compile = Callable[[KernelDefinition, TracedVariant], Any]


class VariantCache:
    """Remember the variants of one kernel, and the schedules that its classes may get.

    A new batch size costs some arithmetic and no compilation. Only the last of each are remembered (MOST_VARIANTS,
    MOST_CONFIGURATIONS): classes are many where sizes or options are known when compiling.

    Not for several threads at once: its user holds a lock.
    """

    def __init__(self, plan: SpecialisationPlan):
        self._plan = plan
        self._choices: dict[tuple, Choices] = {}
        # Those of one key differ in the values of their free names; the last one is the first.
        self._variants: dict[tuple, tuple[Variant, ...]] = {}

    @property
    def all(self) -> tuple[Variant, ...]:
        """All variants compiled so far."""
        return tuple(itertools.chain.from_iterable(self._variants.values()))

    def select(
        self, call: BoundCall, device: torch.device, gpu: Machine | None, schedule: Schedule | None = None
    ) -> Selection:
        """Find the class of a checked call, and the schedule that the class gets, unless one is given."""
        values = measure(self._plan, call)
        specialisation = specialise.specialise(self._plan, call, values, device)
        family = self._configure(specialisation, values, gpu)
        choices = self._choices[family]
        fit = choices.fit(self._plan, schedule, values) if schedule else choices.choose(self._plan, values)
        specialisation = specialise.with_schedule(specialisation, fit.schedule, fit.shapes, fit.grid)
        return Selection(specialisation, fit.schedule, fit.grid, {**values, **fit.schedule.blocks}, gpu, family)

    def learn(self, selection: Selection, error: SizeError) -> None:
        """Choose other blocks for calls like this, whose sizes tracing found not to fit; raise if there are none."""
        self._choices[selection.family].learn(self._plan, error)

    def reject(self, selection: Selection) -> bool:
        """Choose the next best schedule for calls like this; False where there is none."""
        return self._choices[selection.family].reject(self._plan, selection.schedule, selection.values)

    def candidates(self, selection: Selection) -> tuple[Schedule, ...]:
        """Return the schedules for calls like this, the chosen one first."""
        fitting = self._choices[selection.family].fitting(self._plan, selection.values)
        return tuple(fit.schedule for fit in fitting)

    def is_settled(self, selection: Selection) -> bool:
        """Tell whether measuring has chosen the schedule for calls like this."""
        return self._choices[selection.family].is_settled

    def settle(self, selection: Selection, schedule: Schedule) -> None:
        """Fix the schedule of calls like this."""
        self._choices[selection.family].settle(schedule)

    def _configure(self, specialisation: Specialisation, values: Mapping[str, int], gpu: Machine | None) -> tuple:
        """Make the choices of a call's family, unless it has some, and return the family.

        Sizes are rounded up, so that calls of one class get the same choices.
        """
        exact = specialisation.numbers
        names = self._plan.sizes & values.keys()
        sizes = {name: exact.get(name, ranking.rounded(values[name])) for name in names}
        specialisation = replace(specialisation, dot_precision=matmul_precision())
        key = (specialisation, tuple(sorted(sizes.items())), gpu)
        if key not in self._choices:
            self._choices[key] = Choices(ranking.candidates(self._plan.definition, specialisation, sizes, gpu))
        return key

    def get(self, selection: Selection, compile: Compile) -> Variant:
        """Find the variant for a selection, or trace and compile it.

        Raises `SizeError` where its program is not for a call of these sizes.
        """
        try:
            return self._get(selection, compile)
        except SizeError as error:
            known = refined(selection, error.requirement)
            if known is None:
                raise
        return self.get(known, compile)

    def _get(self, selection: Selection, compile: Compile) -> Variant:
        key = _key(selection)
        for precision in (None, matmul_precision()):
            for variant in filter(_is_current, self._variants.get((key, precision), ())):
                check_requirements(self._plan.definition, variant.requirements, selection.values)
                check_races(self._plan.definition, variant.footprints, selection.values)
                return variant
        variant = trace(self._plan.definition, selection)
        return self.keep(replace(variant, compiled=compile(self._plan.definition, variant)))

    def keep(self, variant: Variant) -> Variant:
        """Remember a compiled variant, without its program."""
        kept = Variant(**{each.name: getattr(variant, each.name) for each in fields(Variant)})
        key = (_key(variant.selection), variant.precision)
        others = itertools.filterfalse(_is_current, self._variants.get(key, ()))
        self._variants[key] = (kept, *itertools.islice(others, MOST_VALUES - 1))
        return kept

    def shrink(self) -> bool:
        """Forget the older half where there are more than are to be remembered; return whether any variant was."""
        if len(self._choices) > MOST_CONFIGURATIONS:
            for family in list(self._choices)[: MOST_CONFIGURATIONS // 2]:
                del self._choices[family]
        if len(self._variants) <= MOST_VARIANTS:
            return False
        for key in list(self._variants)[: len(self._variants) - MOST_VARIANTS // 2]:
            del self._variants[key]
        return True


def _is_current(variant: Variant) -> bool:
    return all(name.is_current for name in variant.free_names)


def _key(selection: Selection) -> tuple:
    """Return a key that tells apart what Python's `==` does not: 1 from True and 1.0, 0.0 from -0.0."""
    constants = tuple(
        (type(argument.value), repr(argument.value))
        for argument in selection.specialisation.arguments
        if argument.role == "constant"
    )
    return selection.specialisation, selection.schedule, selection.gpu, constants


def _has_float32_dot(program: ir.Program) -> bool:
    return any(
        isinstance(operation, ir.Apply)
        and operation.function == "dot"
        and operation.operands[0].type.dtype == dtypes.float32
        for operation in ir.walk(program.body)
    )

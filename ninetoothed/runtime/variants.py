"""Variants of a kernel: select the one that a call needs, trace it, and remember those that were compiled."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch

from ninetoothed import dtypes, frontend, ir, passes
from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import ResourceError, SizeError
from ninetoothed.ir.effects import stored, touched
from ninetoothed.passes import support
from ninetoothed.passes.report import dump
from ninetoothed.runtime import specialise
from ninetoothed.runtime.arguments import BoundCall
from ninetoothed.runtime.compilation.target import target_of
from ninetoothed.runtime.hosts import Host, host_of
from ninetoothed.runtime.private import matmul_precision
from ninetoothed.runtime.requirements import answered, check_races, check_requirements, is_met
from ninetoothed.runtime.selection import ranking
from ninetoothed.runtime.selection.choices import Choices, Selection
from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.sizes import measure
from ninetoothed.runtime.specialise_plan import SpecialisationPlan
from ninetoothed.schedule import Schedule
from ninetoothed.specialisation import Specialisation

# How many variants of a kernel are remembered, and how many schedules; the older half goes when there are more.
MOST_VARIANTS = 48
MOST_CONFIGURATIONS = 256
# How many variants of one class and schedule are remembered: those differ in the values of free names, in what they
# require of sizes, or in the precision of their products.
MOST_ALIKE = 4
# How many schedules that spill registers are compiled before the best of them is taken.
MOST_SPILLING = 4


@dataclass(frozen=True)
class Variant:
    """A program for a class of calls, and what launching must know of it.

    precision: that of float32 products (`matmul_precision`) under which it was traced, None where it does not matter.
    stored, touched: the parameters that it writes to; that it reads or writes. reports: the program as it was traced,
    and after each pass for every backend. compiled: the backend's result, once there is one; a variant that is
    remembered has neither reports nor the body of its program.
    """

    selection: Selection
    program: ir.Program
    precision: str | None
    stored: frozenset[str]
    touched: frozenset[str]
    reports: tuple[passes.PassReport, ...] = ()
    compiled: Any = None

    @property
    def spills(self) -> int:
        """The bytes of registers that the compiled kernel spills."""
        return getattr(self.compiled, "spills", 0)


def trace(definition: KernelDefinition, selection: Selection) -> Variant:
    """Trace a kernel for a selection, and run the passes for every backend.

    Raises `SizeError` where the call's sizes do not fit together.
    """
    precision, target, values = matmul_precision(), target_of(selection.gpu), selection.values
    specialisation = replace(selection.specialisation, dot_precision=precision)
    traced = frontend.trace(definition, specialisation, functools.partial(answered, definition, values))
    rewritten = passes.run(traced, target, passes=passes.PORTABLE)
    program = rewritten.program
    support.check(program, target)
    check_requirements(definition, program.requirements, values)
    check_races(definition, program.footprints, values)
    reports = (passes.PassReport("frontend", True, traced), *rewritten.reports)
    dump(f"kernel {definition.name}: the passes for every backend", reports)
    return Variant(
        selection,
        program,
        precision if _has_float32_dot(program) else None,
        stored(ir.walk(program.body)),
        touched(program.body),
        reports,
    )


Compile = Callable[[KernelDefinition, Variant], Any]
AnyVariant = TypeVar("AnyVariant", bound=Variant | None)


class VariantCache:
    """Remember the variants of one kernel, and the schedules that its classes may get.

    A new batch size costs some arithmetic and no compilation. Only the last of each are remembered (MOST_VARIANTS,
    MOST_CONFIGURATIONS): classes are many where sizes or options are known when compiling.

    Not for several threads at once: its user holds a lock.
    """

    def __init__(self) -> None:
        self._choices: dict[tuple, Choices] = {}
        # The newest of a key is the first.
        self._variants: dict[tuple, tuple[Variant, ...]] = {}

    @property
    def all(self) -> tuple[Variant, ...]:
        """All variants compiled so far."""
        return tuple(itertools.chain.from_iterable(self._variants.values()))

    def select(
        self,
        plan: SpecialisationPlan,
        call: BoundCall,
        device: torch.device,
        gpu: Machine | None,
        schedule: Schedule | None = None,
    ) -> Selection:
        """Find the class of a checked call, and the schedule that the class gets, unless one is given."""
        values = measure(plan, call)
        specialisation = specialise.specialise(plan, call, values, device)
        choices = self._choices_of(plan, specialisation, values, gpu or host_of(device.type))
        return choices.fit(schedule, values) if schedule else choices.choose(values)

    def best(
        self,
        plan: SpecialisationPlan,
        call: BoundCall,
        device: torch.device,
        gpu: Machine | None,
        build: Callable[[Selection], AnyVariant],
    ) -> tuple[Selection, AnyVariant]:
        """Build the variant of the best schedule that suits a call, of the first few if possible one without spills.

        build: raises `SizeError` where sizes do not fit together, or not with these blocks, and `ResourceError` where
        the GPU has too little of something.
        """
        spilling: list[tuple[int, int, Selection, AnyVariant]] = []
        while True:
            selection = self.select(plan, call, device, gpu)
            choices = selection.choices
            try:
                variant = build(selection)
            except SizeError as error:
                choices.learn(error)
                continue
            except ResourceError as error:
                if not choices.reject(selection.schedule, selection.values, str(error)):
                    raise
                continue
            spills = 0 if variant is None or choices.is_settled else variant.spills
            if spills <= selection.schedule.most_spilled:
                return selection, variant
            spilling.append((spills, len(spilling), selection, variant))
            if len(spilling) == MOST_SPILLING or not choices.reject(
                selection.schedule, selection.values, f"{spills} bytes of registers spill"
            ):
                _, _, selection, variant = min(spilling)
                choices.settle(selection.schedule)
                return selection, variant

    def _choices_of(
        self, plan: SpecialisationPlan, specialisation: Specialisation, values: Mapping[str, int], place: Machine | Host
    ) -> Choices:
        """Find or make the choices of a call. Sizes are rounded up, so that calls of one class get the same."""
        exact = specialisation.numbers
        names = plan.sizes & values.keys()
        sizes = {name: exact.get(name, ranking.rounded(values[name])) for name in names}
        key = (replace(specialisation, dot_precision=matmul_precision()), tuple(sorted(sizes.items())), place)
        if key not in self._choices:
            gpu = place if isinstance(place, Machine) else None
            ranked = ranking.candidates(plan.definition, key[0], sizes, gpu)
            self._choices[key] = Choices(plan, specialisation, key, ranked)
        return self._choices[key]

    def get(self, definition: KernelDefinition, selection: Selection, compile: Compile) -> Variant:
        """Find the variant for a selection, or trace and compile it."""
        for variant in self._variants.get(_key(selection), ()):
            if _suits(variant, selection.values):
                check_races(definition, variant.program.footprints, selection.values)
                return variant
        variant = trace(definition, selection)
        return self.keep(replace(variant, compiled=compile(definition, variant)))

    def keep(self, variant: Variant) -> Variant:
        """Remember a compiled variant, without the body of its program."""
        kept = replace(variant, program=replace(variant.program, body=()), reports=())
        key = _key(variant.selection)
        self._variants[key] = (kept, *self._variants.get(key, ())[: MOST_ALIKE - 1])
        return kept

    def shrink(self) -> bool:
        """Forget the older half where there are more than are to be remembered; return whether any variant was."""
        if len(self._choices) > MOST_CONFIGURATIONS:
            for key in list(self._choices)[: MOST_CONFIGURATIONS // 2]:
                del self._choices[key]
        if len(self._variants) <= MOST_VARIANTS:
            return False
        for key in list(self._variants)[: len(self._variants) - MOST_VARIANTS // 2]:
            del self._variants[key]
        return True


def _suits(variant: Variant, values: Mapping[str, int]) -> bool:
    """Tell whether a variant of a call's class and schedule was traced for what else counts."""
    program, has_precision = variant.program, variant.precision in (None, matmul_precision())
    is_current = has_precision and all(each.is_current for each in program.free_names)
    return is_current and all(is_met(requirement, values) for requirement in program.requirements)


def _key(selection: Selection) -> tuple:
    """Return a key that tells apart what Python's `==` does not: 1 from True and 1.0, 0.0 from -0.0."""
    constants = tuple(
        (type(argument.value), repr(argument.value))
        for argument in selection.specialisation.arguments
        if argument.role == "constant"
    )
    return selection.specialisation, selection.schedule, selection.gpu or selection.host, constants


def _has_float32_dot(program: ir.Program) -> bool:
    return any(
        isinstance(operation, ir.Apply)
        and operation.function == "dot"
        and operation.operands[0].type.dtype == dtypes.float32
        for operation in ir.walk(program.body)
    )

"""Variants of a kernel: which one a call needs, and a dictionary of those that exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from ninetoothed import dtypes, frontend, ir
from ninetoothed.definition import KernelDefinition
from ninetoothed.effects import stored
from ninetoothed.errors import ApplicationError
from ninetoothed.runtime import conditions, config, requirements, specialise
from ninetoothed.runtime.arguments import Call
from ninetoothed.runtime.specialise import Plan
from ninetoothed.specialisation import Specialisation


@dataclass(frozen=True)
class Selection:
    """What decides which variant a call runs, and over how many programs.

    `gpu` describes the GPU to compile for (None: the PyTorch backend); `values` has every size and stride by name;
    `family` tells which calls get the same configuration.
    """

    specialisation: Specialisation
    configuration: config.Configuration
    grid: tuple[int, ...]
    values: Mapping[str, int]
    gpu: Any = None
    family: tuple = ()


@dataclass(frozen=True)
class Variant:
    """A traced program and what launching it must know.

    `precision` is the `torch.get_float32_matmul_precision()` under which it was traced, None where it does not matter;
    `stored` are the parameters that it writes to; `compiled` is what the backend made of it.
    """

    selection: Selection
    program: ir.Program
    precision: str | None
    stored: frozenset[str]
    compiled: Any = None


def trace(definition: KernelDefinition, selection: Selection) -> Variant:
    """Trace a kernel for a selection; `SizeError` where its program is not for a call of these sizes."""
    precision = torch.get_float32_matmul_precision()
    try:
        program = frontend.trace(definition, replace(selection.specialisation, dot_precision=precision))
    except ApplicationError as error:
        raise requirements.explained(definition, error, selection.values) from None
    requirements.check(definition, program.requirements, selection.values)
    return Variant(selection, program, precision if _has_float32_dot(program) else None, stored(ir.walk(program.body)))


class Cache:
    """The variants of one kernel, and the configurations that its classes got.

    Not for several threads at once: its user holds a lock.
    """

    def __init__(self, plan: Plan):
        self._plan = plan
        self._configurations: dict[tuple, tuple[config.Configuration, ...]] = {}
        self._variants: dict[tuple, Variant] = {}
        self._settled: set[tuple] = set()

    @property
    def all(self) -> tuple[Variant, ...]:
        return tuple(self._variants.values())

    def select(
        self, call: Call, device: torch.device, gpu, configuration: config.Configuration | None = None
    ) -> Selection:
        """The class of a checked call, and the configuration that the class gets, unless one is given."""
        values = specialise.measure(self._plan, call)
        specialisation = specialise.specialise(self._plan, call, values, device)
        family, chosen = self._configure(specialisation, values, gpu)
        configuration = configuration or chosen
        values = {**values, **configuration.blocks}
        conditions.check(self._plan.definition, self._plan.conditions, values)
        shapes = specialise.outermost_shapes(self._plan, values)
        grid = specialise.grid_of(self._plan, shapes)
        specialisation = specialise.with_blocks(specialisation, configuration.blocks, shapes, grid)
        return Selection(specialisation, configuration, grid, values, gpu, family)

    def reject(self, selection: Selection) -> bool:
        """Choose the next best configuration for calls like this, whose own does not fit; whether there is one."""
        rest = self._configurations[selection.family]
        if selection.configuration == rest[0]:
            rest = rest[1:]
        if rest:
            self._configurations[selection.family] = rest
        return bool(rest)

    def candidates(self, selection: Selection) -> tuple[config.Configuration, ...]:
        """The configurations for calls like this, the one that they get first."""
        return self._configurations[selection.family]

    def is_settled(self, selection: Selection) -> bool:
        """Whether measuring has chosen the configuration for calls like this."""
        return selection.family in self._settled

    def settle(self, selection: Selection, configuration: config.Configuration) -> None:
        """Let calls like this get a configuration from now on."""
        others = (each for each in self._configurations[selection.family] if each != configuration)
        self._configurations[selection.family] = (configuration, *others)
        self._settled.add(selection.family)

    def _configure(
        self, specialisation: Specialisation, values: Mapping[str, int], gpu
    ) -> tuple[tuple, config.Configuration]:
        """The choice sees sizes rounded up, so that it cannot tell apart calls of one class."""
        exact = dict(specialisation.constants)
        names = self._plan.sizes & values.keys()
        sizes = {name: exact.get(name, config.rounded(values[name])) for name in names}
        specialisation = replace(specialisation, dot_precision=torch.get_float32_matmul_precision())
        key = (specialisation, tuple(sorted(sizes.items())), gpu)
        if key not in self._configurations:
            self._configurations[key] = config.candidates(self._plan.definition, specialisation, sizes, gpu)
        return key, self._configurations[key][0]

    def get(self, selection: Selection, compile: Callable[[KernelDefinition, Variant], Any]) -> Variant:
        """The variant for a selection; of a new one `compile` makes what launches it.

        Raises `SizeError` where its program is not for a call of these sizes.
        """
        key = _key(selection)
        for precision in (None, torch.get_float32_matmul_precision()):
            if (key, precision) in self._variants:
                variant = self._variants[key, precision]
                requirements.check(self._plan.definition, variant.program.requirements, selection.values)
                return variant
        variant = trace(self._plan.definition, selection)
        return self.keep(replace(variant, compiled=compile(self._plan.definition, variant)))

    def keep(self, variant: Variant) -> Variant:
        """Remember a compiled variant."""
        return self._variants.setdefault((_key(variant.selection), variant.precision), variant)


def _key(selection: Selection) -> tuple:
    """Tells apart what Python's `==` does not: 1 from True and 1.0, 0.0 from -0.0."""
    constants = tuple(
        (type(argument.value), repr(argument.value))
        for argument in selection.specialisation.arguments
        if argument.kind == "constant"
    )
    return selection.specialisation, selection.configuration, selection.gpu, constants


def _has_float32_dot(program: ir.Program) -> bool:
    return any(
        isinstance(operation, ir.Apply)
        and operation.function == "dot"
        and operation.operands[0].type.dtype == dtypes.float32
        for operation in ir.walk(program.body)
    )

"""Variants of a kernel: which one a call needs, and a dictionary of those that exist."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from ninetoothed import dtypes, frontend, ir
from ninetoothed.definition import KernelDefinition
from ninetoothed.effects import stored
from ninetoothed.errors import ApplicationError, ArgumentError, SizeError
from ninetoothed.runtime import agreement, conditions, config, requirements, specialise
from ninetoothed.runtime.arguments import Call
from ninetoothed.runtime.specialise import Plan
from ninetoothed.specialisation import Specialisation

# How many variants of a kernel are remembered, and how many configurations; the older half goes when there are more.
MOST_VARIANTS = 48
MOST_CONFIGURATIONS = 256


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

    One that is remembered has no program any more: what was compiled keeps what it needs of that.

    `precision` is the `torch.get_float32_matmul_precision()` under which it was traced, None where it does not matter;
    `stored` are the parameters that it writes to; `compiled` is what the backend made of it.
    """

    selection: Selection
    program: ir.Program | None
    precision: str | None
    stored: frozenset[str]
    requirements: tuple[ir.Requirement, ...] = ()
    compiled: Any = None


def trace(definition: KernelDefinition, selection: Selection) -> Variant:
    """Trace a kernel for a selection; `SizeError` where its program is not for a call of these sizes."""
    precision = torch.get_float32_matmul_precision()
    specialisation = replace(selection.specialisation, dot_precision=precision)

    def check(found: tuple[ir.Requirement, ...]) -> None:
        requirements.check(definition, found, selection.values)

    try:
        program = frontend.trace(definition, specialisation, check)
    except ApplicationError as error:
        raise requirements.explained(definition, error, selection.values) from None
    precision = precision if _has_float32_dot(program) else None
    return Variant(selection, program, precision, stored(ir.walk(program.body)), program.requirements)


class Cache:
    """The variants of one kernel, and the configurations that its classes got: the last of each, as classes are many
    where sizes or options are known when compiling.

    Not for several threads at once: its user holds a lock.
    """

    def __init__(self, plan: Plan):
        self._plan = plan
        self._configurations: dict[tuple, tuple[config.Configuration, ...]] = {}
        self._rejected: set[tuple[tuple, config.Configuration]] = set()
        self._learned: dict[tuple, tuple[ir.Requirement, ...]] = {}
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
        family = self._configure(specialisation, values, gpu)
        configuration = configuration or self._chosen(family, values)
        values = {**values, **configuration.blocks}
        shapes, grid = self._shapes(family, values)
        specialisation = specialise.with_blocks(specialisation, configuration.blocks, shapes, grid)
        return Selection(specialisation, configuration, grid, values, gpu, family)

    def _shapes(self, family: tuple, values: Mapping[str, int]) -> tuple[dict[str, tuple[int, ...]], tuple[int, ...]]:
        """The outermost shapes and the grid; `SizeError` where sizes do not fit together, or not for these blocks."""
        conditions.check(self._plan.definition, self._plan.conditions, values)
        agreement.check(self._plan, values)
        requirements.check(self._plan.definition, self._learned.get(family, ()), values)
        shapes = specialise.outermost_shapes(self._plan, values)
        return shapes, specialise.grid_of(self._plan, shapes)

    def _chosen(self, family: tuple, values: Mapping[str, int]) -> config.Configuration:
        """The best configuration of a class for whose blocks the sizes of a call fit together."""
        fitting = itertools.chain(self._fitting(family, values), self._legal(family, values))
        chosen = next(fitting, self._configurations[family][0])
        self._shapes(family, {**values, **chosen.blocks})  # where there is none, why the first is not one
        return chosen

    def _fitting(self, family: tuple, values: Mapping[str, int]) -> Iterator[config.Configuration]:
        """Those that a GPU has not refused."""
        return (each for each in self._legal(family, values) if (family, each) not in self._rejected)

    def _legal(self, family: tuple, values: Mapping[str, int]) -> Iterator[config.Configuration]:
        """The configurations of a class for whose blocks the sizes of a call fit; where there is none, with others."""
        own, is_any = self._configurations[family], False
        for each in own:
            if self._are_legal(family, {**values, **each.blocks}):
                is_any = True
                yield each
        learned = (name for each in self._learned.get(family, ()) for name in _names(each))
        for each in () if is_any else config.varied(self._plan.definition, own[0], self._plan.decisive.union(learned)):
            if self._are_legal(family, {**values, **each.blocks}):
                yield each

    def _are_legal(self, family: tuple, values: Mapping[str, int]) -> bool:
        try:
            self._shapes(family, values)
        except ArgumentError:
            return False
        return True

    def learn(self, selection: Selection, error: SizeError) -> None:
        """Choose other blocks for calls like this, for which tracing found that sizes do not fit; raise if none can."""
        found, known = error.requirement, self._learned.get(selection.family, ())
        if found is None or found in known or not _names(found) & self._plan.definition.meta_symbols.keys():
            raise error
        self._learned[selection.family] = (*known, found)

    def reject(self, selection: Selection) -> bool:
        """Choose the next best configuration for calls like this, whose own does not fit; whether there is one."""
        self._rejected.add((selection.family, selection.configuration))
        if next(self._fitting(selection.family, selection.values), None) is not None:
            return True
        self._rejected.discard((selection.family, selection.configuration))
        return False

    def candidates(self, selection: Selection) -> tuple[config.Configuration, ...]:
        """The configurations for calls like this, the one that they get first."""
        return tuple(self._fitting(selection.family, selection.values))

    def is_settled(self, selection: Selection) -> bool:
        """Whether measuring has chosen the configuration for calls like this."""
        return selection.family in self._settled

    def settle(self, selection: Selection, configuration: config.Configuration) -> None:
        """Let calls like this get a configuration from now on."""
        others = (each for each in self._configurations[selection.family] if each != configuration)
        self._configurations[selection.family] = (configuration, *others)
        self._rejected.discard((selection.family, configuration))
        self._settled.add(selection.family)

    def _configure(self, specialisation: Specialisation, values: Mapping[str, int], gpu) -> tuple:
        """The class of a call. The choice sees sizes rounded up, so that it cannot tell apart calls of one class."""
        exact = dict(specialisation.constants)
        names = self._plan.sizes & values.keys()
        sizes = {name: exact.get(name, config.rounded(values[name])) for name in names}
        specialisation = replace(specialisation, dot_precision=torch.get_float32_matmul_precision())
        key = (specialisation, tuple(sorted(sizes.items())), gpu)
        if key not in self._configurations:
            self._configurations[key] = config.candidates(self._plan.definition, specialisation, sizes, gpu)
        return key

    def get(self, selection: Selection, compile: Callable[[KernelDefinition, Variant], Any]) -> Variant:
        """The variant for a selection; of a new one `compile` makes what launches it.

        Raises `SizeError` where its program is not for a call of these sizes.
        """
        key = _key(selection)
        for precision in (None, torch.get_float32_matmul_precision()):
            if (key, precision) in self._variants:
                variant = self._variants[key, precision]
                requirements.check(self._plan.definition, variant.requirements, selection.values)
                return variant
        variant = trace(self._plan.definition, selection)
        return self.keep(replace(variant, compiled=compile(self._plan.definition, variant)))

    def keep(self, variant: Variant) -> Variant:
        """Remember a compiled variant."""
        key = _key(variant.selection), variant.precision
        return self._variants.setdefault(key, replace(variant, program=None))

    def shrink(self) -> bool:
        """Forget the older half of more variants than are to be remembered; whether any was forgotten."""
        if len(self._configurations) > MOST_CONFIGURATIONS:
            for family in list(self._configurations)[: MOST_CONFIGURATIONS // 2]:
                del self._configurations[family]
                self._settled.discard(family)
        if len(self._variants) <= MOST_VARIANTS:
            return False
        for key in list(self._variants)[: len(self._variants) - MOST_VARIANTS // 2]:
            del self._variants[key]
        return True


def _names(requirement: ir.Requirement) -> frozenset[str]:
    return requirement.left.variables | requirement.right.variables


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

"""The problem that selection solves: a kernel, a class of calls of it, and what these leave to choose."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ninetoothed.arrangement.sizes import plain_name
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.definition import KernelDefinition
from ninetoothed.expr.sizes import evaluate, power_above
from ninetoothed.runtime.selection.pattern import LoadedTile, Pattern, pattern_of, work_of
from ninetoothed.runtime.sizes import within
from ninetoothed.schedule import Schedule
from ninetoothed.specialisation import Specialisation

# The warps of a program that does the work of several.
COARSENED_WARPS = 4
# The lanes of the largest tile that may be loaded: Triton allows no larger one.
MOST_LANES = 2**20
# Bytes of shared memory that Triton needs besides the stages of a loop.
RESERVED = 2048
# Sides of tiles for which the cost model of products holds, but for operands that stream past shorter ones.
SHORTEST = 32


@dataclass(frozen=True)
class TuningProblem:
    """A kernel and a class of calls, for which a schedule is to be chosen.

    sizes: those of the parameters by name, rounded unless they are constexpr.
    """

    definition: KernelDefinition
    specialisation: Specialisation
    sizes: Mapping[str, int]

    @cached_property
    def work(self) -> Pattern:
        """The part of the pattern that the arrangement alone tells."""
        return work_of(self.definition)

    @cached_property
    def pattern(self) -> Pattern:
        """The pattern of the kernel, for which the application is sketched."""
        return pattern_of(self.definition, self.specialisation)

    @cached_property
    def values(self) -> dict[str, int]:
        """All numbers that are known without a choice: sizes and constexpr symbols."""
        return {**self.sizes, **self.specialisation.numbers}

    # -- how much there is to do --

    def extent(self, name: str) -> int:
        """Count the elements that a block size cuts into blocks."""
        e = self.work.extents.get(name)
        return evaluate(e, self.values) if e is not None else 1024

    def programs(self, blocks: Mapping[str, int]) -> int:
        """Count the programs, one a tile, that some block sizes make."""
        values = {**self.values, **blocks}
        return math.prod(max(evaluate(extent, values), 1) for extent in self.work.grid)

    def lanes(self, tile: LoadedTile, blocks: Mapping[str, int]) -> int:
        """Count the lanes of a tile: its elements, each dimension rounded up to a power of two."""
        values = {**self.values, **blocks}
        return math.prod(power_above(max(evaluate(size, values), 1)) for size in tile.shape)

    # -- what is known of the arguments --

    def bits(self, parameter: int) -> int:
        """Return the bits of an element of a parameter."""
        dtype = self.specialisation.arguments[parameter].dtype
        return dtype.bits if dtype is not None else 32

    def is_exact(self, bits: int) -> bool:
        """Tell whether operands of so many bits are whole float32 numbers, which no tensor core multiplies."""
        return bits == 32 and self.specialisation.dot_precision == "highest"

    def is_aligned(self, parameter: int) -> bool:
        """Tell whether each row of a tensor is known to start at a multiple of 8 elements: it is read in vectors."""
        known = self.specialisation.numbers
        return all(
            known.get(name) in (0, 1) or self.specialisation.multiple_of(name) % 8 == 0
            for name in self._strides(parameter)
        )

    def has_odd_rows(self, parameter: int) -> bool:
        """Tell whether rows of a tensor start at odd multiples of 8 elements: for halves, of 16 bytes."""
        known, divisors = dict(self.specialisation.known), dict(self.specialisation.divisors)
        return any(divisors.get(str(known.get(name, name))) == 8 for name in self._strides(parameter))

    def _strides(self, parameter: int) -> list[str]:
        strides = self.definition.parameters[parameter].source.strides
        return [plain_name(stride) for stride in strides if isinstance(stride, Symbol)]

    @property
    def aligned(self) -> frozenset[str]:
        """The tensors whose addresses are multiples of 16."""
        return aligned_tensors(self.definition, self.specialisation)

    # -- what the user allows --

    def block(self, name: str, wanted: int) -> int:
        """Return the permitted value of a block size that is nearest to `wanted`."""
        symbol = self.definition.symbols.get(name)
        if symbol is None or not symbol.meta:
            return self.values.get(name, wanted)
        return within(symbol, wanted)

    def warps(self, wanted: int) -> int:
        """Return the permitted number of warps that is nearest to `wanted`."""
        return nearest(self.definition.num_warps, wanted)

    def stages(self, wanted: int) -> int:
        """Return the permitted number of stages that is nearest to `wanted`."""
        return nearest(self.definition.num_stages, wanted)

    def schedule(self, blocks: Mapping[str, int], warps: int, stages: int) -> Schedule:
        """Return a schedule with a value for every meta symbol; those that `blocks` lacks get a modest one."""
        meta = {name: blocks.get(name, within(symbol, 64)) for name, symbol in self.definition.meta_symbols.items()}
        return Schedule(tuple(meta.items()), self.warps(warps), self.stages(stages))


def aligned_tensors(definition: KernelDefinition, specialisation: Specialisation) -> frozenset[str]:
    """Name the tensors of a class of calls whose addresses are multiples of 16."""
    arguments = zip(definition.parameters, specialisation.arguments, strict=True)
    return frozenset(
        parameter.name for parameter, argument in arguments if argument.role == "tensor" and argument.aligned
    )


def nearest(given: tuple[int, ...] | None, wanted: int) -> int:
    """Return the number given that is nearest to `wanted` in proportion; `wanted` itself where none is."""
    if not given:
        return wanted
    return min(given, key=lambda value: abs(math.log2(value / wanted)))

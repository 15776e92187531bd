"""The problem that selection solves: a kernel, a class of calls of it, and what these leave to choose."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ninetoothed.definition import KernelDefinition
from ninetoothed.runtime.selection.pattern import LoadedTile, Pattern, pattern_of
from ninetoothed.runtime.sizes import evaluate, power_above, power_below
from ninetoothed.specialisation import Specialisation
from ninetoothed.symbol import Symbol, plain_name

# The warps of a program that does the work of several.
COARSENED_WARPS = 4
# The lanes of the largest tile that may be loaded: Triton allows no larger one.
MOST_LANES = 2**20
# Bytes of shared memory that Triton needs besides the stages of a loop.
RESERVED = 2048
# Sides of tiles for which the cost model of products holds; `streaming` has shorter ones.
SHORTEST = 32


@dataclass(frozen=True)
class Configuration:
    """A choice: block sizes, the warps of a program, the stages of its pipelined loops, and how tiles are shared out.

    meta: (name, number) for each meta symbol.
    use_tma: whether tiles may go through tensor descriptors, whose copies are the copy engine's.
    programs: the number of programs that take the tiles of a product one after another; 0 for a program a tile.
    coarsening: the number of programs of straight-line code that are done side by side, on `COARSENED_WARPS`; 1 where
        each is done by itself, as it is where that cannot be.
    split_k: the number of programs over which the sum of a product is shared out.
    tiles_per_wave: unless 0, only the sums of tiles beyond whole waves of so many are shared out (stream-K).
    remainder_stages: unless 0, tiles beyond whole waves are cut in quarters, too, whose loops have so many stages.
    """

    meta: tuple[tuple[str, int], ...] = ()
    num_warps: int = 4
    num_stages: int = 3
    use_tma: bool = False
    programs: int = 0
    coarsening: int = 1
    split_k: int = 1
    tiles_per_wave: int = 0
    remainder_stages: int = 0

    @property
    def blocks(self) -> dict[str, int]:
        return dict(self.meta)

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in self.meta]
        parts += [f"num_warps={self.num_warps}", f"num_stages={self.num_stages}"]
        parts += [f"programs={self.programs}"] if self.programs else []
        parts += [f"coarsening={self.coarsening}"] if self.coarsening > 1 else []
        parts += [f"split_k={self.split_k}"] if self.split_k > 1 else []
        parts += [f"tiles_per_wave={self.tiles_per_wave}"] if self.tiles_per_wave else []
        parts += [f"remainder_stages={self.remainder_stages}"] if self.remainder_stages else []
        return ", ".join(parts)


@dataclass(frozen=True)
class TuningProblem:
    """A kernel and a class of calls, for which a schedule is to be chosen.

    sizes: those of the parameters by name, rounded unless they are constexpr.
    """

    definition: KernelDefinition
    specialisation: Specialisation
    sizes: Mapping[str, int]

    @cached_property
    def pattern(self) -> Pattern:
        return pattern_of(self.definition)

    @cached_property
    def values(self) -> dict[str, int]:
        """All numbers that are known without a choice: sizes and constexpr symbols."""
        return {**self.sizes, **self.specialisation.numbers}

    # -- how much there is to do --

    def extent(self, name: str) -> int:
        """Count the elements that a block size cuts into blocks."""
        e = self.pattern.extents.get(name)
        return evaluate(e, self.values) if e is not None else 1024

    def programs(self, blocks: Mapping[str, int]) -> int:
        """Count the programs, one a tile, that some block sizes make."""
        values = {**self.values, **blocks}
        return math.prod(max(evaluate(extent, values), 1) for extent in self.pattern.grid)

    def lanes(self, tile: LoadedTile, blocks: Mapping[str, int]) -> int:
        """Count the lanes of a tile: its elements, each dimension rounded up to a power of two."""
        values = {**self.values, **blocks}
        return math.prod(power_above(max(evaluate(size, values), 1)) for size in tile.shape)

    # -- what is known of the arguments --

    def bits(self, parameter: int) -> int:
        """Return the bits of an element of a parameter."""
        dtype = self.specialisation.arguments[parameter].dtype
        return dtype.bits if dtype is not None else 32

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

    def configuration(self, blocks: Mapping[str, int], warps: int, stages: int) -> Configuration:
        """Return a configuration with a value for every meta symbol; those that `blocks` lacks get a modest one."""
        meta = {name: blocks.get(name, within(symbol, 64)) for name, symbol in self.definition.meta_symbols.items()}
        return Configuration(sorted_blocks(meta), self.warps(warps), self.stages(stages))


def within(symbol: Symbol, wanted: int) -> int:
    """Return the value within a symbol's bounds that is nearest to `wanted`: a power of two where it asks for one."""
    low, high = symbol.lower_bound or 1, symbol.upper_bound or 2**20
    value = min(max(wanted, low), high)
    if symbol.power_of_two and value & (value - 1):
        below, above = power_below(value), 2 * power_below(value)
        value = above if below < low <= above <= high else below if below >= low else value
    return value


def nearest(given: tuple[int, ...] | None, wanted: int) -> int:
    """Return the number given that is nearest to `wanted` in proportion; `wanted` itself where none is."""
    if not given:
        return wanted
    return min(given, key=lambda value: abs(math.log2(value / wanted)))


def sorted_blocks(blocks: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return block sizes as a hashable value, the same for equal ones."""
    return tuple(sorted(blocks.items()))

"""What to choose a configuration for, and what a choice is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ninetoothed.definition import KernelDefinition
from ninetoothed.runtime.selection.pattern import Structure
from ninetoothed.runtime.sizes import evaluate, power_above, power_below
from ninetoothed.specialisation import Specialisation
from ninetoothed.symbol import Symbol

# The warps of a program that does the work of several.
PACKED_WARPS = 4
# The lanes of the largest tile that may be loaded.
MOST_LANES = 2**20
# Shared memory that Triton needs besides the stages of a loop.
RESERVED = 2048
# Tiles of products, (rows, columns, warps), whose accumulators take at most 64 registers of a thread.
SMALL_TILES = (
    (64, 128, 4),
    (128, 64, 4),
    (64, 64, 4),
    (32, 128, 4),
    (128, 32, 4),
    (32, 64, 4),
    (64, 32, 4),
    (32, 32, 4),
    (16, 128, 4),
    (128, 16, 4),
    (16, 64, 4),
    (64, 16, 4),
)


@dataclass(frozen=True)
class Configuration:
    """A choice: (name, number) for each meta symbol, the warps of a program, the stages of its pipelined loops.

    described: whether tiles may go through tensor descriptors. programs: how many programs take the tiles of a product
    one after another; 0 for a program a tile. packed: how many programs of straight-line code are done side by side, on
    `PACKED_WARPS`; 1 where each is done by itself, as it is where that cannot be. split: over how many programs the sum
    of a product is shared out; at_once: unless 0, only those of tiles beyond whole waves of so many programs are.
    quarters: unless 0, these tiles are cut in quarters, too, whose loops have so many stages.
    """

    meta: tuple[tuple[str, int], ...] = ()
    num_warps: int = 4
    num_stages: int = 3
    described: bool = False
    programs: int = 0
    packed: int = 1
    split: int = 1
    at_once: int = 0
    quarters: int = 0

    @property
    def blocks(self) -> dict[str, int]:
        return dict(self.meta)

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in self.meta]
        parts += [f"num_warps={self.num_warps}", f"num_stages={self.num_stages}"]
        parts += [f"programs={self.programs}"] if self.programs else []
        parts += [f"packed={self.packed}"] if self.packed > 1 else []
        parts += [f"split={self.split}"] if self.split > 1 else []
        parts += [f"at_once={self.at_once}"] if self.at_once else []
        return ", ".join([*parts, *([f"quarters={self.quarters}"] if self.quarters else [])])


@dataclass(frozen=True)
class Task:
    """What to choose for: a kernel and a class of calls."""

    definition: KernelDefinition
    specialisation: Specialisation
    sizes: Mapping[str, int]
    structure: Structure

    @property
    def values(self) -> dict[str, int]:
        """All numbers that are known without a choice: sizes, constexpr symbols."""
        constants = {name: value for name, value in self.specialisation.constants if isinstance(value, int)}
        return {**self.sizes, **constants}

    def extent(self, name: str) -> int:
        """How many elements a block size cuts into blocks."""
        e = self.structure.extents.get(name)
        return evaluate(e, self.values) if e is not None else 1024

    def programs(self, blocks: Mapping[str, int]) -> int:
        values = {**self.values, **blocks}
        return math.prod(max(evaluate(extent, values), 1) for extent in self.structure.grid)

    def block(self, name: str, wanted: int) -> int:
        """The permitted value of a block size that is nearest to `wanted`."""
        symbol = self.definition.symbols.get(name)
        if symbol is None or not symbol.meta:
            return self.values.get(name, wanted)
        return within(symbol, wanted)

    def warps(self, wanted: int) -> int:
        return nearest(self.definition.num_warps, wanted)

    def stages(self, wanted: int) -> int:
        return nearest(self.definition.num_stages, wanted)

    def bits(self, parameter: int) -> int:
        dtype = self.specialisation.arguments[parameter].dtype
        return dtype.bits if dtype is not None else 32

    def is_aligned(self, parameter: int) -> bool:
        """Whether each row of a tensor is known to start at a multiple of 8 elements, so that it is read in vectors."""
        known = dict(self.specialisation.constants)
        names = [stride.name for stride in self.definition.parameters[parameter].source.strides]
        return all(known.get(name) in (0, 1) or self.specialisation.multiple_of(name) % 8 == 0 for name in names)

    def has_odd_rows(self, parameter: int) -> bool:
        """Whether rows of a tensor start at odd multiples of 8 elements, which for halves are those of 16 bytes."""
        others = dict(self.specialisation.aliases)
        strides = (stride.name for stride in self.definition.parameters[parameter].source.strides)
        return any(others.get(name, name) in self.specialisation.half_divisible for name in strides)

    def configuration(self, blocks: Mapping[str, int], warps: int, stages: int) -> Configuration:
        """With a value for every meta symbol; those that `blocks` lacks get a modest one."""
        meta = {name: blocks.get(name, within(symbol, 64)) for name, symbol in self.definition.meta_symbols.items()}
        return Configuration(sorted_blocks(meta), self.warps(warps), self.stages(stages))

    def on_cpu(self) -> dict[str, int]:
        """Few and large blocks, but not so large that much of the last one is empty."""
        blocks = {}
        for name, symbol in self.definition.meta_symbols.items():
            extent = self.extent(name)
            least = 2 if name in self.structure.loops or len(self.definition.meta_symbols) > 1 else 1
            blocks[name] = within(symbol, power_below(max(extent // least, 1)))
        while self._lanes(blocks) > MOST_LANES:
            halves = {name: self.block(name, block // 2) for name, block in blocks.items()}
            smaller = [name for name, half in halves.items() if half < blocks[name]]
            if not smaller:
                break
            largest = max(smaller, key=blocks.__getitem__)
            blocks[largest] = halves[largest]
        return blocks

    def _lanes(self, blocks: Mapping[str, int]) -> int:
        """The lanes of the largest tile."""
        values = {**self.values, **blocks}
        shapes = ([power_above(max(evaluate(size, values), 1)) for size in tile.shape] for tile in self.structure.tiles)
        return max(map(math.prod, shapes), default=1)


def within(symbol: Symbol, wanted: int) -> int:
    """The value within a symbol's bounds that is nearest to `wanted`; a power of two where the symbol asks for one."""
    low, high = symbol.lower_bound or 1, symbol.upper_bound or 2**20
    value = min(max(wanted, low), high)
    if symbol.power_of_two and value & (value - 1):
        below, above = power_below(value), 2 * power_below(value)
        value = above if below < low <= above <= high else below if below >= low else value
    return value


def nearest(given: tuple[int, ...] | None, wanted: int) -> int:
    if not given:
        return wanted
    return min(given, key=lambda value: abs(math.log2(value / wanted)))


def sorted_blocks(blocks: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(blocks.items()))

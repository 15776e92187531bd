"""Which block sizes, warps and stages: a formula over a description of the GPU, without measuring anything.

`candidates` ranks what fits; `choose` takes the first. What the user fixed (constexpr blocks, warps, stages) is obeyed.
The choice sees sizes as classes only (the caller rounds them to powers of two), so that few variants exist.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ninetoothed.definition import KernelDefinition
from ninetoothed.errors import CompilationError
from ninetoothed.runtime.device import GPU
from ninetoothed.runtime.structure import Attention, Product, Structure, evaluate, structure
from ninetoothed.specialisation import Specialisation
from ninetoothed.symbol import Symbol

# A matrix product's tiles: (rows, columns, warps), so that an accumulator takes at most 128 registers of a thread.
_PRODUCT_TILES = (
    (128, 256, 8),
    (256, 128, 8),
    (128, 128, 8),
    (64, 256, 8),
    (256, 64, 8),
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
    (16, 16, 1),
)
_WARPS = (1, 2, 4, 8, 16, 32)
# Shared memory that Triton needs besides the stages of a loop.
_RESERVED = 2048


@dataclass(frozen=True)
class Configuration:
    """A choice: (name, number) for each meta symbol, the warps of a program, the stages of its pipelined loops.

    described: whether tiles may go through tensor descriptors. programs: how many programs take the tiles of a product
    one after another; 0 for a program a tile.
    """

    meta: tuple[tuple[str, int], ...] = ()
    num_warps: int = 4
    num_stages: int = 3
    described: bool = False
    programs: int = 0

    @property
    def blocks(self) -> dict[str, int]:
        return dict(self.meta)

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in self.meta]
        parts += [f"num_warps={self.num_warps}", f"num_stages={self.num_stages}"]
        return ", ".join([*parts, *([f"programs={self.programs}"] if self.programs else [])])


def choose(
    definition: KernelDefinition, specialisation: Specialisation, sizes: Mapping[str, int], gpu: GPU | None
) -> Configuration:
    """The configuration of a class of calls; `gpu` None means the CPU backend.

    sizes: those of the parameters by name, rounded up to powers of two unless they are constexpr.
    Raises `CompilationError` for a `num_warps` or `num_stages` that no GPU has.
    """
    return candidates(definition, specialisation, sizes, gpu)[0]


def candidates(
    definition: KernelDefinition, specialisation: Specialisation, sizes: Mapping[str, int], gpu: GPU | None
) -> tuple[Configuration, ...]:
    """Configurations in the order in which the formula prefers them; at least one."""
    _check(definition)
    task = Task(definition, specialisation, sizes, structure(definition))
    if gpu is None:
        return (Configuration(_sorted(task.on_cpu())),)
    if isinstance(task.structure.kind, Product):
        found = _products(task, gpu)
    elif isinstance(task.structure.kind, Attention):
        found = _attentions(task, gpu)
    else:
        found = iter([_lanewise(task, gpu)])
    found = tuple(dict.fromkeys(found)) or (_lanewise(task, gpu),)
    return found if gpu.capability < 90 or 0 in sizes.values() else tuple(_described(task, found, gpu))


def _described(task: Task, found: tuple[Configuration, ...], gpu: GPU) -> Iterator[Configuration]:
    """Each with descriptors; with many tiles of a product first persistent, which takes more shared memory."""
    kind = task.structure.kind
    for configuration in found:
        configuration = replace(configuration, described=kind is not None)
        if isinstance(kind, Product) and max(task.bits(kind.lhs), task.bits(kind.rhs)) <= 16:
            tiles, shape = task.programs(configuration.blocks), _shape(task, configuration)
            resident = max(1, min(gpu.shared_memory // shape.shared_persistent(configuration.num_stages), 2))
            programs = gpu.multiprocessors * resident
            # Rows that start at odd multiples of 16 bytes are slower to copy: tiles are then better shared out singly.
            if tiles > programs and not task.specialisation.half_divisible:
                yield replace(configuration, programs=programs)
        yield configuration


def _shape(task: Task, configuration: Configuration) -> _Shape:
    kind, blocks = task.structure.kind, {**task.values, **configuration.blocks}
    bits = max(task.bits(kind.lhs), task.bits(kind.rhs))
    sides = (blocks[name] for name in (kind.rows, kind.columns, kind.depth))
    return _Shape(*sides, bits, configuration.num_warps, False)


def _check(definition: KernelDefinition) -> None:
    for name, values, allowed in (
        ("num_warps", definition.num_warps, _WARPS),
        ("num_stages", definition.num_stages, range(1, 17)),
    ):
        for value in values or ():
            if value not in allowed:
                what = "a power of two from 1 to 32" if name == "num_warps" else "from 1 to 16"
                raise CompilationError(
                    f"kernel `{definition.name}` was made with {name}={value}; give {what}, or leave it to the compiler"
                )


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
        return _nearest(self.definition.num_warps, wanted)

    def stages(self, wanted: int) -> int:
        return _nearest(self.definition.num_stages, wanted)

    def bits(self, parameter: int) -> int:
        dtype = self.specialisation.arguments[parameter].dtype
        return dtype.bits if dtype is not None else 32

    def configuration(self, blocks: Mapping[str, int], warps: int, stages: int) -> Configuration:
        """With a value for every meta symbol; those that `blocks` lacks get a modest one."""
        meta = {name: blocks.get(name, within(symbol, 64)) for name, symbol in self.definition.meta_symbols.items()}
        return Configuration(_sorted(meta), self.warps(warps), self.stages(stages))

    def on_cpu(self) -> dict[str, int]:
        """Few and large blocks, but not so large that much of the last one is empty."""
        blocks = {}
        for name, symbol in self.definition.meta_symbols.items():
            extent = self.extent(name)
            least = 2 if name in self.structure.loops or len(self.definition.meta_symbols) > 1 else 1
            blocks[name] = within(symbol, _power_below(max(extent // least, 1)))
        return blocks


def within(symbol: Symbol, wanted: int) -> int:
    """The value within a symbol's bounds that is nearest to `wanted`; a power of two where the symbol asks for one."""
    low, high = symbol.lower_bound or 1, symbol.upper_bound or 2**20
    value = min(max(wanted, low), high)
    if symbol.power_of_two and value & (value - 1):
        below, above = _power_below(value), 2 * _power_below(value)
        value = above if below < low <= above <= high else below if below >= low else value
    return value


def _nearest(given: tuple[int, ...] | None, wanted: int) -> int:
    if not given:
        return wanted
    return min(given, key=lambda value: abs(math.log2(value / wanted)))


def _power_below(n: int) -> int:
    """The largest power of two that is at most n."""
    return 1 << max(n.bit_length() - 1, 0)


def _power_above(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def _sorted(blocks: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(blocks.items()))


# -- matrix products --


def _products(task: Task, gpu: GPU) -> Iterator[Configuration]:
    """Tiles that fit, the one of least estimated time first."""
    kind = task.structure.kind
    bits = max(task.bits(kind.lhs), task.bits(kind.rhs))
    scored: dict[Configuration, float] = {}
    is_exact = bits == 32 and task.specialisation.dot_precision == "highest"
    for (m, n, warps), row_bytes in itertools.product(_PRODUCT_TILES, (256, 128, 64)):
        if row_bytes == 256 and (is_exact or m * n > 64 * 128):
            continue  # too few stages would fit, or too much would be unrolled
        k = row_bytes * 8 // bits
        blocks = {
            kind.rows: task.block(kind.rows, m),
            kind.columns: task.block(kind.columns, n),
            kind.depth: task.block(kind.depth, min(k, _power_above(task.extent(kind.depth)))),
        }
        shape = _Shape(*blocks.values(), bits, task.warps(warps), is_exact)
        stages = _stages(task, shape, gpu)
        if shape.registers > _accumulator_registers(task, is_exact, gpu) or shape.shared(stages) > gpu.shared_memory:
            continue
        configuration = task.configuration(blocks, shape.warps, stages)
        scored.setdefault(configuration, _cycles(task, shape, stages, task.programs(blocks), gpu))
    yield from sorted(scored, key=scored.get)


def _accumulator_registers(task: Task, is_exact: bool, gpu: GPU) -> int:
    """How much of a thread's registers an accumulator may take, beside what the rest of the kernel keeps in them."""
    if is_exact:
        return 64
    kind = task.structure.kind
    results = sum(
        {kind.rows, kind.columns} == set().union(*(size.variables for size in tile.shape))
        for tile in task.structure.tiles
    )
    return 64 if results > 1 and gpu.capability >= 100 else 128


def _stages(task: Task, shape: _Shape, gpu: GPU) -> int:
    """Three for the largest tiles, four for others, as many as fit."""
    stages = task.stages(3 if shape.rows * shape.columns >= 128 * 256 else 4)
    while not task.definition.num_stages and stages > 2 and shape.shared(stages) > gpu.shared_memory:
        stages -= 1
    return stages


@dataclass(frozen=True)
class _Shape:
    """One step of a product: (rows, depth) times (depth, columns). is_exact: float32 without tensor cores."""

    rows: int
    columns: int
    depth: int
    bits: int
    warps: int
    is_exact: bool

    @property
    def registers(self) -> int:
        """Registers of a thread for the accumulator."""
        return self.rows * self.columns // (32 * self.warps)

    @property
    def step_bytes(self) -> int:
        return (self.rows + self.columns) * self.depth * self.bits // 8

    def shared(self, stages: int) -> int:
        return stages * self.step_bytes + _RESERVED

    def shared_persistent(self, stages: int) -> int:
        """With half a tile to be stored beside the stages of the next."""
        return self.shared(stages) + self.rows * self.columns * self.bits // 16

    @property
    def efficiency(self) -> float:
        """What part of the peak rate the tile reaches: small ones feed the tensor cores too slowly."""
        largest = 64 * 64 if self.is_exact else 128 * 256
        return min(1.0, 0.35 + 0.65 * math.sqrt(self.rows * self.columns / largest))


def _cycles(task: Task, shape: _Shape, stages: int, programs: int, gpu: GPU) -> float:
    """An estimate of the clock cycles of the busiest multiprocessor."""
    steps = -(-task.extent(task.structure.kind.depth) // shape.depth)
    multiply = 2 * shape.rows * shape.columns * shape.depth / (_rate(gpu, shape) * shape.efficiency)
    fetch = shape.step_bytes / 64  # bytes a cycle from the L2 cache
    each = -(-programs // gpu.multiprocessors)
    resident = max(1, min(gpu.shared_memory // shape.shared(stages), 2048 // (32 * shape.warps), 4, each))
    # A lone program waits for its loads: a round trip to memory for as many steps as are in flight.
    latency = 800 / max(stages - 1, 1) / resident
    step = max(multiply, fetch, latency) + 60
    start, end = 1500 * -(-each // resident), each * shape.rows * shape.columns / 64
    return each * steps * step + start + end


def _rate(gpu: GPU, shape: _Shape) -> float:
    """Operations a cycle of one multiprocessor in dense products."""
    if shape.is_exact:
        return 256
    generation = 1 if gpu.capability < 90 else 2 if gpu.capability < 100 else 4
    return 2048 * generation * 16 / shape.bits


# -- attention --


def _attentions(task: Task, gpu: GPU) -> Iterator[Configuration]:
    """Blocks whose scores, weights and accumulator fit into registers, and whose operands fit into shared memory."""
    kind, limit = task.structure.kind, _attention_registers(task, gpu)
    bits, width = task.bits(kind.lhs), _power_above(max(evaluate(kind.width, task.values), 16))
    rows = min(128, _power_above(task.extent(kind.rows)))
    while rows > 64 and task.programs({kind.rows: task.block(kind.rows, rows)}) < gpu.multiprocessors:
        rows //= 2
    general = ((rows, 64), (rows, 32), (min(rows, 64), 32), (min(rows, 32), 32), (16, 16))
    for m, n, most in (*_fine_attentions(task, gpu, rows, width), *((m, n, 3) for m, n in general)):
        if bits == 32:
            m, n = min(m, 64), min(n, 32)
        m = task.block(kind.rows, m)
        n = task.block(kind.keys, min(n, _power_above(task.extent(kind.keys))))
        # A score and a weight for each key, and what is accumulated of the width.
        warps = next((w for w in (4, 8) if m * (2 * n + width) // (32 * task.warps(w)) <= limit), None)
        for stages in range(most, 0, -1):
            needed = bits // 8 * width * (m + 2 * task.stages(stages) * n) + _RESERVED
            if warps and needed <= gpu.shared_memory:
                yield task.configuration({kind.rows: m, kind.keys: n}, warps, stages)
                break


def _fine_attentions(task: Task, gpu: GPU, rows: int, width: int) -> Iterator[tuple[int, int, int]]:
    """(rows, keys, stages) for Hopper: programs of one warp group, so that one's products hide another's exponentials.

    A flag that is set (a mask, a diagonal) costs registers for each score, and tiles that are looked at in part.
    """
    if gpu.capability // 10 != 9 or task.bits(task.structure.kind.lhs) > 16 or width > 128:
        return
    is_flagged = any(argument.value is True for argument in task.specialisation.arguments)
    yield (min(rows, 64), 64, 3) if width > 64 or is_flagged else (min(rows, 64), 128, 2)


def _attention_registers(task: Task, gpu: GPU) -> int:
    """Registers of a thread that scores, weights and accumulator may take; Hopper reads operands from shared memory."""
    if task.bits(task.structure.kind.lhs) == 32 and task.specialisation.dot_precision == "highest":
        return 32
    return 200 if 90 <= gpu.capability < 100 else 110 if gpu.capability < 90 else 130


# -- element by element, and rows --


def _lanewise(task: Task, gpu: GPU) -> Configuration:
    """One or two 16-byte vectors a thread; whole rows get warps by their length."""
    symbols = task.definition.meta_symbols
    bits = max([task.bits(tile.parameter) for tile in task.structure.tiles], default=32)
    fixed = max([_elements(task, tile.shape, set(symbols)) for tile in task.structure.tiles], default=1)
    if not symbols:
        return task.configuration({}, _row_warps(fixed), 3)
    vector = 128 // bits
    wanted = 128 * vector * (2 if bits > 16 else 1)
    # Small arrays are spread over all multiprocessors.
    total = math.prod(max(task.extent(name), 1) for name in symbols)
    share = _power_below(max(total // (gpu.multiprocessors * 2), 1))
    wanted = max(min(wanted, share), 32 * vector)
    blocks = _shared_out(task, max(wanted // fixed, 1))
    lanes = fixed * math.prod(blocks.values())
    return task.configuration(blocks, min(max(_power_above(lanes // (32 * vector)), 1), 4 if fixed == 1 else 16), 3)


def _elements(task: Task, shape, symbols: set[str]) -> int:
    """The lanes of a tile, the block sizes to be chosen aside."""
    values = {**task.values, **dict.fromkeys(symbols, 1)}
    return math.prod(_power_above(max(evaluate(size, values), 1)) for size in shape)


def _row_warps(lanes: int) -> int:
    """Some 16 elements a thread, and more where there would be too many threads."""
    return min(max(_power_above(lanes // 512), 1), 16 if lanes <= 32768 else 32)


def _shared_out(task: Task, wanted: int) -> dict[str, int]:
    """Block sizes whose product is about `wanted`, the last dimensions (which lie closest in memory) first."""
    names = list(task.definition.meta_symbols)
    order = [name for tile in task.structure.tiles for size in reversed(tile.shape) for name in sorted(size.variables)]
    blocks: dict[str, int] = {}
    for name in dict.fromkeys([*(n for n in order if n in names), *names]):
        remaining = len(names) - len(blocks)
        part = wanted if remaining == 1 else min(wanted, max(128, round(wanted ** (1 / remaining))))
        blocks[name] = task.block(name, min(_power_below(max(part, 1)), _power_above(max(task.extent(name), 1))))
        wanted = max(wanted // blocks[name], 1)
    return blocks

"""Which block sizes, warps and stages: a formula over a description of the GPU, without measuring anything.

`candidates` ranks what fits; `choose` takes the first. What the user fixed (constexpr blocks, warps, stages) is obeyed.
The choice sees sizes as classes only (the caller gives them `rounded`), so that few variants exist.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from ninetoothed.definition import KernelDefinition
from ninetoothed.runtime.selection import hopper
from ninetoothed.runtime.selection.attention import attentions
from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.selection.pattern import Attention, Product, structure
from ninetoothed.runtime.selection.problem import Configuration, Task, sorted_blocks, within
from ninetoothed.runtime.selection.products import persistent, products
from ninetoothed.runtime.sizes import evaluate, power_above, power_below
from ninetoothed.specialisation import Specialisation
from ninetoothed.symbol import Symbol

__all__ = ["Configuration", "candidates", "choose", "rounded", "within"]

# Elements of all rows that are done side by side.
PACKED_LANES = 2048
# How many combinations of block sizes are looked at where none of those preferred fits the sizes of a call.
MOST_VARIED = 4096


def rounded(size: int) -> int:
    """The size that stands for its class: up to 1024 the next power of two, from there on the next quarter of one."""
    quarter = max(power_below(max(size - 1, 1)) // 4, 1)
    return -(-size // quarter) * quarter if size > 1024 else power_above(size) if size else 0


def choose(
    definition: KernelDefinition, specialisation: Specialisation, sizes: Mapping[str, int], gpu: Machine | None
) -> Configuration:
    """The configuration of a class of calls; `gpu` None means the CPU backend.

    sizes: those of the parameters by name, `rounded` unless they are constexpr.
    """
    return candidates(definition, specialisation, sizes, gpu)[0]


def candidates(
    definition: KernelDefinition, specialisation: Specialisation, sizes: Mapping[str, int], gpu: Machine | None
) -> tuple[Configuration, ...]:
    """Configurations in the order in which the formula prefers them; at least one."""
    task = Task(definition, specialisation, sizes, structure(definition))
    if gpu is None:
        return (Configuration(sorted_blocks(task.on_cpu())),)
    if isinstance(task.structure.kind, Product) and hopper.is_measured(task, gpu) and 0 not in sizes.values():
        fitting = tuple(hopper.products(task, gpu))
        if fitting:
            return fitting
    if isinstance(task.structure.kind, Product):
        found = products(task, gpu)
    elif isinstance(task.structure.kind, Attention):
        found = attentions(task, gpu)
    else:
        found = iter([_lanewise(task, gpu)])
    found = tuple(dict.fromkeys(found)) or (_lanewise(task, gpu),)
    return found if gpu.capability < 90 or 0 in sizes.values() else tuple(_described(task, found, gpu))


def varied(definition: KernelDefinition, pick: Configuration, names: Collection[str]) -> Iterator[Configuration]:
    """A configuration with other values of these block sizes, those first that are nearest to its own."""
    symbols = {name: symbol for name, symbol in definition.meta_symbols.items() if name in names}
    choices = itertools.product(*map(_values, symbols.values()))

    def distance(values: tuple[int, ...]) -> float:
        pairs = zip(symbols, values, strict=True)
        return sum(abs(math.log2(value / pick.blocks[name])) for name, value in pairs)

    for values in sorted(itertools.islice(choices, MOST_VARIED), key=distance):
        blocks = {**pick.blocks, **dict(zip(symbols, values, strict=True))}
        yield Configuration(sorted_blocks(blocks), pick.num_warps, pick.num_stages, pick.described)


def _values(symbol: Symbol) -> list[int]:
    """The bounds of a block size, and the powers of two between them."""
    powers = (1 << n for n in range(21))
    return sorted({within(symbol, wanted) for wanted in (1, *powers, 2**20)})


def _described(task: Task, found: tuple[Configuration, ...], gpu: Machine) -> Iterator[Configuration]:
    """Each with descriptors; with many tiles of a product first persistent, which takes more shared memory."""
    for configuration in found:
        configuration = replace(configuration, described=task.structure.kind is not None)
        if isinstance(task.structure.kind, Product):
            looping = persistent(task, configuration, gpu)
            if looping is not None:
                yield looping
        yield configuration


# -- element by element, and rows --


def _lanewise(task: Task, gpu: Machine) -> Configuration:
    """A 16-byte vector a thread, of elements of more than 16 bits two; whole rows get warps by their length."""
    symbols = task.definition.meta_symbols
    bits = max([task.bits(tile.parameter) for tile in task.structure.tiles], default=32)
    fixed = max([_elements(task, tile.shape, set(symbols)) for tile in task.structure.tiles], default=1)
    if not symbols:
        return replace(task.configuration({}, _row_warps(fixed), 3), packed=_packed(task, fixed, gpu))
    vector = 128 // bits
    held = vector * (2 if bits > 16 else 1)
    wanted = 128 * held
    # Small arrays are spread over all multiprocessors.
    total = task.programs(dict.fromkeys(symbols, 1))
    share = power_below(max(total // (gpu.multiprocessors * 2), 1))
    wanted = max(min(wanted, share), 32 * vector)
    blocks = _shared_out(task, max(wanted // fixed, 1))
    lanes = fixed * math.prod(blocks.values())
    warps = lanes // (32 * held) if fixed == 1 else min(power_above(lanes // (32 * vector)), 16)
    return task.configuration(blocks, max(warps, 1), 3)


def _elements(task: Task, shape, symbols: set[str]) -> int:
    """The lanes of a tile, the block sizes to be chosen aside."""
    values = {**task.values, **dict.fromkeys(symbols, 1)}
    return math.prod(power_above(max(evaluate(size, values), 1)) for size in shape)


def _row_warps(lanes: int) -> int:
    """Some 16 elements a thread, and more where there would be too many threads."""
    return min(max(power_above(lanes // 512), 1), 32)


def _packed(task: Task, lanes: int, gpu: Machine) -> int:
    """How many programs are done side by side: as many as fit, or are along the last axis, or one: few variants."""
    extents = [evaluate(extent, task.values) for extent in task.structure.grid]
    last = next((extent for extent in reversed(extents) if extent > 1), 1)
    count = min(power_below(max(PACKED_LANES // lanes, 1)), power_above(last))
    is_free = not task.definition.num_warps and not task.structure.loops
    return count if is_free and task.programs({}) >= 2 * gpu.multiprocessors * count else 1


def _shared_out(task: Task, wanted: int) -> dict[str, int]:
    """Block sizes whose product is about `wanted`, the last dimensions (which lie closest in memory) first."""
    names = list(task.definition.meta_symbols)
    order = [name for tile in task.structure.tiles for size in reversed(tile.shape) for name in sorted(size.variables)]
    blocks: dict[str, int] = {}
    for name in dict.fromkeys([*(n for n in order if n in names), *names]):
        remaining = len(names) - len(blocks)
        part = wanted if remaining == 1 else min(wanted, max(128, round(wanted ** (1 / remaining))))
        blocks[name] = task.block(name, min(power_below(max(part, 1)), power_above(max(task.extent(name), 1))))
        wanted = max(wanted // blocks[name], 1)
    return blocks

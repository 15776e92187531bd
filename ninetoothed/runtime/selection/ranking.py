"""Rank schedules by a formula over a description of the GPU, without measuring anything.

`candidates` ranks those that fit; the first is taken. What the user fixed (constexpr blocks, warps, stages) is obeyed.
Sizes are seen as classes only (the caller gives them `rounded`), so that few variants exist.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.definition import KernelDefinition
from ninetoothed.expr.sizes import power_above, power_below
from ninetoothed.runtime.selection.attention import attentions
from ninetoothed.runtime.selection.machine import Machine
from ninetoothed.runtime.selection.pattern import AttentionPattern, ProductPattern
from ninetoothed.runtime.selection.problem import TuningProblem
from ninetoothed.runtime.selection.products import products
from ninetoothed.runtime.selection.rows import lanewise, on_cpu
from ninetoothed.runtime.sizes import within
from ninetoothed.schedule import DataParallel, Schedule
from ninetoothed.specialisation import Specialisation

# The number of combinations of block sizes that are looked at where none of those preferred fits the sizes of a call.
MOST_VARIED = 4096


def rounded(size: int) -> int:
    """Round a size up to that which stands for its class.

    >>> rounded(1000), rounded(1025), rounded(4096)
    (1024, 1280, 4096)

    That is the next power of two up to 1024, and from there on the next quarter of one.
    """
    quarter = max(power_below(max(size - 1, 1)) // 4, 1)
    return -(-size // quarter) * quarter if size > 1024 else power_above(size) if size else 0


def candidates(
    definition: KernelDefinition, specialisation: Specialisation, sizes: Mapping[str, int], gpu: Machine | None
) -> tuple[Schedule, ...]:
    """Return schedules for a class of calls in the order in which the formula prefers them; at least one.

    sizes: those of the parameters by name, `rounded` unless they are constexpr. gpu: None for tensors that are on none.
    """
    problem = TuningProblem(definition, specialisation, sizes)
    if gpu is None:
        return (on_cpu(problem),)
    match problem.pattern:
        case ProductPattern() as product:
            found = products(problem, product, gpu)
        case AttentionPattern() as attention:
            found = attentions(problem, attention, gpu)
        case _:
            found = iter([lanewise(problem, gpu)])
    ranked = tuple(dict.fromkeys(found)) or (lanewise(problem, gpu),)
    has_tiles = isinstance(problem.pattern, ProductPattern | AttentionPattern) and 0 not in sizes.values()
    use_tma = problem.aligned if has_tiles and gpu.generation.has_tma else frozenset[str]()
    if isinstance(problem.pattern, ProductPattern) and problem.pattern.has_windows:
        # A result that is stored by a descriptor makes products of windows slower by up to a half, as timed on an H200.
        use_tma &= {problem.definition.parameters[operand].name for operand in problem.pattern.operands}
    return tuple(replace(each, use_tma=use_tma) for each in ranked if use_tma or not each.overlaps)


def varied(definition: KernelDefinition, pick: Schedule, names: Collection[str]) -> Iterator[Schedule]:
    """Yield a schedule with other values of the block sizes `names`, those nearest to its own first."""
    symbols = {name: symbol for name, symbol in definition.meta_symbols.items() if name in names}
    choices = itertools.product(*map(_values, symbols.values()))

    def distance(values: tuple[int, ...]) -> float:
        pairs = zip(symbols, values, strict=True)
        return sum(abs(math.log2(value / pick.blocks[name])) for name, value in pairs)

    for values in sorted(itertools.islice(choices, MOST_VARIED), key=distance):
        blocks = {**pick.blocks, **dict(zip(symbols, values, strict=True))}
        yield replace(pick, meta=tuple(blocks.items()), sharing=DataParallel())


def _values(symbol: Symbol) -> list[int]:
    """Return the bounds of a block size, and the powers of two between them."""
    powers = (1 << n for n in range(21))
    return sorted({within(symbol, wanted) for wanted in (1, *powers, 2**20)})

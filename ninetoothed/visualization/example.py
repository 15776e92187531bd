"""A symbolic tensor with small numbers in the place of symbols, and which element of its source each cell is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy

from ninetoothed.arrangement.numbers import elements, with_numbers
from ninetoothed.arrangement.operands import shape_text
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.errors import arrangement_error
from ninetoothed.wording import counted, reworded

# What a size stands for where the call tells it: no multiple of a block, so that there is overhang to be seen.
_SIZE, _BLOCK = 5, 2
# More cells than these are cut; more elements are not even listed.
_CELLS, _ELEMENTS = 6400, 1 << 24


@dataclass(frozen=True)
class Example:
    """A tensor with numbers.

    source: the elements of its source that are shown. levels: the shapes that are shown. elements: for each index of
    all levels the row-major place in the source, -1 out of bounds. title, notes: its symbolic shape, and what was
    chosen and cut.
    """

    source: numpy.ndarray
    levels: tuple[tuple[int, ...], ...]
    elements: numpy.ndarray
    title: str
    notes: tuple[str, ...]


def examples(tensors: Iterable[Tensor], names: Mapping[str, str] = MappingProxyType({})) -> list[Example]:
    """Give small numbers to the symbols of tensors, the same to a symbol in each of them.

    names: what users call tensors, by the names that they were made with.
    """
    tensors = tuple(tensors)
    symbols: dict[str, Symbol] = {}
    for tensor in tensors:
        symbols |= tensor.arrangement.symbols
    numbers = {name: _number(symbol) for name, symbol in symbols.items()}
    return [_example(tensor, names, numbers) for tensor in tensors]


def _number(symbol: Symbol) -> int:
    """Choose a small number within the bounds that a size was given; blocks are shown smaller than they ever are."""
    if symbol.meta or symbol.constexpr:
        return _BLOCK
    lower, upper = symbol.lower_bound or 1, symbol.upper_bound
    return max(lower, _SIZE if upper is None else min(_SIZE, upper))


def _example(tensor: Tensor, names: Mapping[str, str], numbers: dict[str, int]) -> Example:
    arrangement, name = tensor.arrangement, names.get(tensor.name, tensor.name)
    told = [f"{reworded(symbol, names)} = {numbers[symbol]}" for symbol in arrangement.symbols]
    found = with_numbers(arrangement, {symbol: numbers[symbol] for symbol in arrangement.symbols})
    levels: tuple = found.levels[tensor.level :]  # numbers, now that no name is left
    count = math.prod(size for level in levels for size in level)
    if count > _ELEMENTS:
        what = f"`{name}` has {counted(count, 'element')}, too many to draw"
        raise arrangement_error(what, "give smaller sizes, as `Tensor(shape=(4, 8))` or by `subs`")
    places = elements(found)[(0,) * sum(map(len, found.levels[: tensor.level]))]
    source = numpy.arange(math.prod(found.source.sizes)).reshape(found.source.sizes)  # type: ignore[arg-type]
    (source, _), (places, shown) = _cut(source, (source.shape,)), _cut(places, levels)
    if shown != levels:
        told.append(f"cut: {_text(shown)} of {_text(levels)}")
    text = reworded(", ".join(map(shape_text, arrangement.levels[tensor.level :])), names)
    return Example(source, shown, places, f"{name}: {text}", tuple(told))


def _cut(elements: numpy.ndarray, levels: tuple) -> tuple[numpy.ndarray, tuple[tuple[int, ...], ...]]:
    """Halve the largest size until the cells are few enough to be told apart."""
    sizes = [list(level) for level in levels]
    while math.prod(itertools.chain(*sizes)) > _CELLS:
        level = max(sizes, key=lambda each: max(each, default=0))
        largest = level.index(max(level))
        level[largest] = -(-level[largest] // 2)
    return elements[tuple(slice(size) for size in itertools.chain(*sizes))], tuple(map(tuple, sizes))


def _text(levels: tuple[tuple[int, ...], ...]) -> str:
    return ", ".join(map(str, levels))

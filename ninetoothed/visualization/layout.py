"""The places of cells, and of the frames around tiles, of a tensor of several levels on paper.

Places along x depend on some dimensions alone, those along y on the others: each dimension has a stride on paper, as it
has one in memory. The unit is the side of a cell.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy

# Between cells, and between groups of cells or tiles: one more dimension along an axis, or one more level.
_GAP = 0.08
_WIDER = 0.45
# Between a frame and what is in it.
_PADDING = 0.22


@dataclass(frozen=True)
class Frame:
    """A tile: its level, its index in the outermost level, its lower left corner and its size."""

    level: int
    program: tuple[int, ...]
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """The places of all cells: arrays of the shape of all levels together; y grows downwards."""

    x: numpy.ndarray
    y: numpy.ndarray
    width: float
    height: float
    frames: tuple[Frame, ...]


def axes(levels: tuple[tuple[int, ...], ...]) -> list[list[str]]:
    """Return the axis, x or y, of each dimension: in turns from the last, and a level of one continues the one around.

    >>> axes(((2, 2), (4, 2, 2)))
    [['y', 'x'], ['x', 'y', 'x']]
    """
    return [["xy"[(len(level) - 1 - dim) % 2] for dim in range(len(level))] for level in levels]


def layout(levels: tuple[tuple[int, ...], ...]) -> Layout:
    """Lay out the cells of levels of these shapes, outermost first."""
    ways = axes(levels)
    extent = {"x": 1.0, "y": 1.0}
    strides: list[list[float]] = [[0.0] * len(level) for level in levels]
    boxes = []  # of each level from the innermost, its size with its frame
    for depth, level in enumerate(reversed(levels)):
        place = len(levels) - 1 - depth
        met = {"x": 0, "y": 0}
        for dim in reversed(range(len(level))):
            axis = ways[place][dim]
            gap = _GAP + _WIDER * (depth + met[axis])
            strides[place][dim] = extent[axis] + gap
            extent[axis] = max(level[dim] * strides[place][dim] - gap, 0.0)
            met[axis] += 1
        padding = 2 * _PADDING if place else 0.0
        extent = {axis: size + padding for axis, size in extent.items()}
        boxes.append((extent["x"], extent["y"]))
    boxes.reverse()
    x, y = (_places(levels, ways, strides, axis) + _PADDING * (len(levels) - 1) for axis in "xy")
    shape = tuple(itertools.chain(*levels))
    frames = [each for level in range(1, len(levels)) for each in _frames(levels, ways, strides, level, boxes[level])]
    return Layout(numpy.broadcast_to(x, shape), numpy.broadcast_to(y, shape), *boxes[0], tuple(frames))


def _places(levels: tuple, ways: list, strides: list, axis: str) -> numpy.ndarray:
    """Sum the strides of the dimensions along an axis, for each index of all these levels."""
    dims = [each for place, level in enumerate(levels) for each in zip(level, ways[place], strides[place], strict=True)]
    total = numpy.zeros((1,) * len(dims))
    for dim, (size, way, stride) in enumerate(dims):
        if way == axis:
            total = total + (numpy.arange(size) * stride).reshape([-1 if i == dim else 1 for i in range(len(dims))])
    return total


def _frames(levels: tuple, ways: list, strides: list, level: int, size: tuple[float, float]) -> list[Frame]:
    outer = levels[:level]
    shape = tuple(itertools.chain(*outer))
    x, y = (
        numpy.broadcast_to(_places(outer, ways[:level], strides[:level], axis), shape) + _PADDING * (level - 1)
        for axis in "xy"
    )
    count = len(levels[0])
    return [Frame(level, each[:count], float(x[each]), float(y[each]), *size) for each in numpy.ndindex(shape)]

"""Draw examples of tensors by matplotlib."""

from __future__ import annotations

import colorsys
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ninetoothed.visualization.example import Example
from ninetoothed.visualization.layout import Layout, layout

Color = tuple[float, float, float]

# Inches: a cell with a number at most, one without, a picture, what titles, letters and margins take.
_CELL, _PLAIN, _PICTURE, _TITLE, _LETTER, _MARGIN = 0.34, 0.2, 22.0, 0.62, 0.085, 0.25
# A cell that is smaller than this has no number; nor have more cells than these.
_LEGIBLE, _NUMBERED = 0.24, 1200
_NOBODY: Color = (1.0, 1.0, 1.0)
_PLAIN_COLOR = "#8fb8de"
_INSIDE, _OUTSIDE = "#404040", "#c0c0c0"
# The colours of programs that hold one element, side by side, at most.
_STRIPES = 4


@dataclass(frozen=True)
class Panel:
    """One tensor of a picture.

    numbers: of each cell its element, -1 out of bounds. held: of each cell the colours of the programs that hold it.
    colors: of each tile of the outermost level.
    """

    title: str
    notes: tuple[str, ...]
    layout: Layout
    numbers: numpy.ndarray
    held: Sequence[Sequence[Color]]
    colors: numpy.ndarray


def tensor(example: Example, color: Any = None) -> Figure:
    """Draw one tensor; tiles of its outermost level have a colour each, or all have one."""
    return _figure([[_tiles(example, color)]])


def arrangement(shown: Sequence[Example]) -> Figure:
    """Draw a row for each parameter: its source with the colours of the programs, and its tiles."""
    return _figure([[_source(each), _tiles(each)] for each in shown])


def save(figure: Figure, path: str | os.PathLike[str] | None) -> Figure:
    """Save a figure where a path is given; return it."""
    if path is not None:
        figure.savefig(path, dpi=110)
    return figure


def _tiles(example: Example, color: Any = None) -> Panel:
    """Show an arranged tensor."""
    colors = _colors(example) if color is None else numpy.full((*example.levels[0], 3), to_rgb(color))
    flat = colors.reshape(-1, 3)
    inner = example.elements.size // max(len(flat), 1)
    held = [[tuple(each)] for each in numpy.repeat(flat, inner, axis=0).tolist()]
    return Panel(example.title, example.notes, layout(example.levels), example.elements.reshape(-1), held, colors)


def _source(example: Example) -> Panel:
    """Show a source: each element with the colours of the programs that hold it."""
    numbers = example.source.reshape(-1)
    colors = _colors(example).reshape(-1, 3)
    held: dict[int, list[Color]] = {number: [] for number in numbers.tolist()}
    for color, tile in zip(colors.tolist(), example.elements.reshape(len(colors), -1), strict=True):
        for number in held.keys() & set(tile.reshape(-1).tolist()):
            held[number].append(tuple(color))
    title = f"{example.title.partition(':')[0]}, as it is called with"
    return Panel(title, (), layout((example.source.shape,)), numbers, list(held.values()), colors)


def _colors(example: Example) -> numpy.ndarray:
    """Give each tile of the outermost level a colour, neighbours far apart; a tensor of one level has one."""
    grid = example.levels[0]
    if len(example.levels) == 1:
        return numpy.full((*grid, 3), to_rgb(_PLAIN_COLOR))
    # Hues by the golden section: of so many as there may be, those that follow each other differ most.
    count = int(numpy.prod(grid, dtype=int))
    hues = [colorsys.hsv_to_rgb((0.58 + i * 0.381966) % 1, 0.42, (0.95, 0.84)[i % 2]) for i in range(count)]
    return numpy.array(hues).reshape(*grid, 3)


def _figure(rows: list[list[Panel]]) -> Figure:
    """Put panels into rows and columns, all cells of one size."""
    columns = list(zip(*rows, strict=True))
    widths = [max(panel.layout.width for panel in column) for column in columns]
    heights = [max(panel.layout.height for panel in row) for row in rows]
    is_numbered = all(panel.numbers.size <= _NUMBERED for row in rows for panel in row)
    cell = min(_CELL if is_numbered else _PLAIN, _PICTURE / max(*widths, 1), 2 * _PICTURE / max(sum(heights), 1))
    titles = [_LETTER * max(len(line) for panel in column for line in _lines(panel)) for column in columns]
    spans = [max(cell * width, title) + _MARGIN for width, title in zip(widths, titles, strict=True)]
    bands = [cell * height + _TITLE + _MARGIN for height in heights]
    figure = Figure(figsize=(sum(spans) + _MARGIN, sum(bands)))
    for i, row in enumerate(rows):
        top = sum(bands[i:]) - _TITLE
        for j, panel in enumerate(row):
            size = cell * max(panel.layout.width, 0.01), cell * max(panel.layout.height, 0.01)
            corner = _MARGIN + sum(spans[:j]), top - size[1]
            whole = sum(spans) + _MARGIN, sum(bands)
            box = [inches / all for inches, all in zip((*corner, *size), (*whole, *whole), strict=True)]
            _draw(figure.add_axes((box[0], box[1], box[2], box[3])), panel, cell)
    return figure


def _lines(panel: Panel) -> list[str]:
    return [panel.title, *([", ".join(panel.notes)] if panel.notes else [])]


def _draw(axes: Axes, panel: Panel, cell: float) -> None:
    axes.set_xlim(-0.05, panel.layout.width + 0.05)
    axes.set_ylim(panel.layout.height + 0.05, -0.05)
    axes.set_axis_off()
    axes.text(0, -0.25, "\n".join(_lines(panel)), fontsize=9, va="bottom", family="monospace")
    for frame in panel.layout.frames:
        color = panel.colors[frame.program]
        fill: Any = 1 - 0.25 * (1 - color) if frame.level == 1 else "none"
        place = Rectangle((frame.x, frame.y), frame.width, frame.height, facecolor=fill, edgecolor=0.55 * color)
        place.set_linewidth(1.6 / frame.level)
        axes.add_patch(place)
    _cells(axes, panel)
    if cell >= _LEGIBLE and panel.numbers.size <= _NUMBERED:
        for x, y, number in _places(panel):
            if number >= 0:
                axes.text(x + 0.5, y + 0.5, str(number), ha="center", va="center", fontsize=21 * cell)


def _cells(axes: Axes, panel: Panel) -> None:
    """Draw all cells: those out of bounds empty and dotted, those of several programs in stripes."""
    stripes: list[Rectangle] = []
    faces: list[Color] = []
    for (x, y, number), colors in zip(_places(panel), panel.held, strict=True):
        shown = colors[:_STRIPES] if number >= 0 and colors else [_NOBODY]
        stripes += [Rectangle((x + i / len(shown), y), 1 / len(shown), 1) for i in range(len(shown))]
        faces += shown
    axes.add_collection(PatchCollection(stripes, facecolors=faces, linewidths=0))
    for is_inside, color, style in ((True, _INSIDE, "-"), (False, _OUTSIDE, ":")):
        outlines = [Rectangle((x, y), 1, 1) for x, y, number in _places(panel) if (number >= 0) == is_inside]
        drawn = PatchCollection(outlines, facecolors="none", edgecolors=color, linewidths=0.5, linestyles=style)
        axes.add_collection(drawn)


def _places(panel: Panel) -> list[tuple[float, float, int]]:
    x, y = panel.layout.x.reshape(-1), panel.layout.y.reshape(-1)
    return list(zip(x.tolist(), y.tolist(), panel.numbers.tolist(), strict=True))

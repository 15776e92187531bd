"""Draw the arrangement of a kernel as a small SVG, which `docs/gallery.py` keeps in docs/pictures/gallery.

Each parameter is drawn as `ninetoothed.visualization` lays it out, with small numbers for sizes and blocks that only a
call tells: a cell is an element, with its number where there is room, frames are tiles, and each program has a colour.
Past the end, one dotted cell stands for all.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy
import torch

from benchmarks.gallery import files as gallery
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.errors import NineToothedError
from ninetoothed.make import Kernel
from ninetoothed.visualization.example import Example, examples
from ninetoothed.visualization.layout import layout

Call = Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]
# The side of a cell, the height of a title, and how wide a letter of it is, in pixels.
SIDE, TITLE, LETTER = 18, 22, 6.7
# More cells are cut, and wider pictures; of more cells than these no numbers are written.
MOST, WIDE, NUMBERED = 160, 900, 80
COLOURS = ("#8fb8ff", "#ffc48a", "#9ddfa5", "#f5a3ad", "#c9b2f2", "#e0c29b", "#f4b6dd", "#c4c9d1", "#dfe08a", "#8fdde3")
STYLE = (
    "text{font:11px monospace;fill:#808080}.n{font-size:8px;fill:#222;text-anchor:middle}"
    "rect{fill:none;stroke:#808080}.o{fill:none;stroke:#a0a0a0;stroke-dasharray:2}"
)


def drawn(example: gallery.Example) -> str:
    """Draw the kernel of a file."""
    kernel = example.module.kernel

    def first_call() -> tuple[tuple[Any, ...], dict[str, Any]]:
        torch.manual_seed(0)
        return example.first_calls()[kernel]

    return drawn_of(kernel, first_call)


def drawn_of(kernel: Kernel, call: Call) -> str:
    """Draw the parameters that are tensors, one below the other; those that are arranged alike once.

    call: gives arguments and keywords of a small call.
    """
    top, width, parts = 0.0, 0.0, []
    alike: dict[tuple, list[Example]] = {}
    for shown in sized(kernel, call):
        alike.setdefault((shown.levels, shown.elements.tobytes()), []).append(shown)
    for same in alike.values():
        part, size = _tensor(same, top)
        parts.append(part)
        top, width = top + size[1], max(width, size[0])
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{top:.0f}">'
    return named(f"{head}<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n")


def named(text: str) -> str:
    """Number blocks that have no name of the user's by their order: their own numbers depend on what was imported."""
    numbers = dict.fromkeys(re.findall(r"ninetoothed_block_size_\d+", text))
    names = {name: f"BLOCK_{number}" for number, name in enumerate(numbers)}
    return re.sub(r"ninetoothed_block_size_\d+", lambda match: names[match[0]], text)


def sized(kernel: Kernel, call: Call) -> list[Example]:
    """Give sizes small numbers; where these do not fit together, those of a small call.

    Of jagged tensors all entries are drawn as long as the longest.
    """
    parameters = kernel.definition.as_given().parameters
    arrangements = [replace(each.arrangement, source=replace(each.source, jagged_dim=None)) for each in parameters]
    tensors = [Tensor.of(each) for each in arrangements if each.source.sizes]
    try:
        found = examples(tensors, kernel.definition.given_names)
        grids = {tuple(size for size in each.levels[0] if size != 1) for each in found}
        if len(grids) == 1:
            return found
    except NineToothedError:
        pass
    args, numbers = call()
    for parameter, value in zip(parameters, args, strict=True):
        sizes = zip(parameter.source.sizes, getattr(value, "shape", ()))
        numbers |= {str(name): size for name, size in sizes if isinstance(name, Symbol)}
    return examples([tensor.subs(numbers) for tensor in tensors], kernel.definition.given_names)


def _tensor(same: list[Example], top: float) -> tuple[str, tuple[float, float]]:
    """Draw tensors that are arranged alike below their title; return the text, and its width and height."""
    elements, levels = trimmed(same[0])
    names, shape = (", ".join(each.title.partition(":")[0] for each in same), same[0].title.partition(":")[2])
    title = f"{names}:{shape}" + ("" if levels == same[0].levels else ", in part")
    places = layout(levels)
    parts = [f'<text x="2" y="{top + 14:.0f}">{html.escape(title)}</text>']
    top += TITLE
    x, y = (places.x.reshape(-1) * SIDE + 2, places.y.reshape(-1) * SIDE + top)
    flat = elements.reshape(-1)
    programs = numpy.arange(flat.size) // max(elements[(0,) * len(levels[0])].size, 1) if len(levels) > 1 else 0 * flat
    colours = numpy.where(flat < 0, -1, programs % len(COLOURS))
    for colour in sorted({*colours.tolist()}):
        chosen = colours == colour
        path = "".join(f"M{a:.0f} {b:.0f}h16v16h-16z" for a, b in zip(x[chosen], y[chosen], strict=True))
        kind = 'class="o"' if colour < 0 else f'fill="{COLOURS[colour]}"'
        parts.append(f'<path {kind} d="{path}"/>')
    if len(levels) > 1:
        frames = (each for each in places.frames if each.level == 1)
        parts += [
            f'<rect x="{each.x * SIDE + 2:.0f}" y="{each.y * SIDE + top:.0f}" width="{each.width * SIDE:.0f}" '
            f'height="{each.height * SIDE:.0f}"/>'
            for each in frames
        ]
    if flat.size <= NUMBERED:
        parts += [
            f'<text class="n" x="{a + 8:.0f}" y="{b + 11:.0f}">{n}</text>' for a, b, n in zip(x, y, flat) if n >= 0
        ]
    size = max(places.width * SIDE + 4, LETTER * len(title) + 4), TITLE + places.height * SIDE + 8
    return "\n".join(parts), size


def trimmed(example: Example) -> tuple[numpy.ndarray, tuple[tuple[int, ...], ...]]:
    """Cut what lies past the end everywhere but for one cell, then the largest dimensions, until few are left."""
    elements = example.elements
    for axis in range(elements.ndim):
        others = tuple(each for each in range(elements.ndim) if each != axis)
        inside = (elements >= 0).any(axis=others).nonzero()[0]
        kept = min(elements.shape[axis], (inside[-1] + 2) if len(inside) else 1)
        elements = elements.take(range(kept), axis)
    while elements.size > MOST or layout(_levels(elements, example)).width * SIDE > WIDE:
        axis = int(numpy.argmax(elements.shape))
        elements = elements.take(range(math.ceil(elements.shape[axis] / 2)), axis)
    return elements, _levels(elements, example)


def _levels(elements: numpy.ndarray, example: Example) -> tuple[tuple[int, ...], ...]:
    """Divide the shape of all levels among them."""
    sizes, levels = list(elements.shape), []
    for level in example.levels:
        levels.append(tuple(sizes[: len(level)]))
        del sizes[: len(level)]
    return tuple(levels)

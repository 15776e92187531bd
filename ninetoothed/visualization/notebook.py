"""Show notebooks arranged tensors as drawings in SVG, without matplotlib, and sources highlighted."""

from __future__ import annotations

import html
import io
import keyword
import tokenize
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.errors import NineToothedError
from ninetoothed.visualization.example import Example, examples
from ninetoothed.visualization.layout import layout

_SIDE, _MOST = 18, 1600
_COLOURS = (
    "#8fb8ff",
    "#ffc48a",
    "#9ddfa5",
    "#f5a3ad",
    "#c9b2f2",
    "#e0c29b",
    "#f4b6dd",
    "#c4c9d1",
    "#dfe08a",
    "#8fdde3",
)


def tensor_html(tensor: Tensor) -> str:
    """Draw a symbolic tensor for a notebook: a colour for each program; its text where it cannot be drawn."""
    return tensors_html((tensor,))


def tensors_html(tensors: Iterable[Tensor], names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Draw symbolic tensors, with the same numbers for their symbols."""
    tensors = tuple(tensors)
    try:
        return "\n".join(map(_drawn, examples(tensors, names)))
    except NineToothedError:
        return "".join(f"<pre>{html.escape(repr(each))}</pre>" for each in tensors)


def _drawn(example: Example) -> str:
    title = f"<code>{html.escape(example.title)}</code>"
    notes = f"<br><small>{html.escape(', '.join(example.notes))}</small>" if example.notes else ""
    if not 0 < example.elements.size <= _MOST:
        return f"<div>{title}{notes}<br><small>too large to draw here, or empty</small></div>"
    places = layout(example.levels)
    grid = example.levels[0] if len(example.levels) > 1 else ()
    programs = max(len(grid), 0)
    cells = []
    for number, (x, y, element) in enumerate(
        zip(places.x.reshape(-1), places.y.reshape(-1), example.elements.reshape(-1), strict=True)
    ):
        program = number // max(example.elements[(0,) * programs].size, 1) if programs else 0
        fill = "#fff" if element < 0 else _COLOURS[program % len(_COLOURS)]
        said = "overhang" if element < 0 else f"element {element}"
        left, top = x * _SIDE + 1, y * _SIDE + 1
        cells.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{_SIDE}" height="{_SIDE}" fill="{fill}" stroke="#9aa1ab"'
            f"{' stroke-dasharray=' + chr(34) + '2' + chr(34) if element < 0 else ''}><title>{said}</title></rect>"
        )
    width, height = places.width * _SIDE + 2, places.height * _SIDE + 2
    drawing = (
        f'<svg width="{width:.0f}" height="{height:.0f}" xmlns="http://www.w3.org/2000/svg">{"".join(cells)}</svg>'
    )
    return f"<div>{title}{notes}<br>{drawing}</div>"


def source_html(text: str) -> str:
    """Highlight Python for a notebook; plain where it is none."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        tokens = []
    lines, marks = text.splitlines(keepends=True), []
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for token in tokens:
        style = _style(token)
        if style:
            begin, end = (starts[row - 1] + column for row, column in (token.start, token.end))
            marks.append((begin, end, style))
    parts, at = [], 0
    for begin, end, style in marks:
        parts += [html.escape(text[at:begin]), f'<span style="color:{style}">{html.escape(text[begin:end])}</span>']
        at = end
    return f'<pre style="line-height:1.35">{"".join(parts)}{html.escape(text[at:])}</pre>'


def _style(token: tokenize.TokenInfo) -> str | None:
    if token.type == tokenize.NAME and keyword.iskeyword(token.string):
        return "#8250df"
    return {tokenize.COMMENT: "#6e7781", tokenize.STRING: "#0a7a3d", tokenize.NUMBER: "#0550ae"}.get(token.type)

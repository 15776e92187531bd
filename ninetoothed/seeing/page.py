"""A page that steps through the programs of a call: tiles of each parameter beside the application's lines."""

from __future__ import annotations

import functools
import itertools
import json
import math
import pathlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ninetoothed.seeing.steps import Line, debug
from ninetoothed.wording import counted

# What is left out of a page: programs after these, elements of a parameter, of a value, and rounds of lines.
_PROGRAMS, _SIDE, _VALUES, _LINES = 256, 64, 600, 200


@dataclass(frozen=True)
class Page:
    """A page of HTML that needs nothing else. A notebook shows it; `save` writes it to a file."""

    html: str

    def save(self, path: str | pathlib.Path) -> pathlib.Path:
        """Write the page to a file, and return its path."""
        path = pathlib.Path(path)
        path.write_text(self.html, encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        escaped = self.html.replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{escaped}" style="width:100%;height:720px;border:0"></iframe>'

    def __repr__(self) -> str:
        return f"<page of {len(self.html)} characters; `.save(path)` writes it>"


class _Full(BaseException):  # no `Exception`, which the evaluator would explain
    """Ends the run: the programs of the page are complete."""


def show(kernel: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Page:
    """Make the page of a call, on copies of its tensors."""
    data = data_of(kernel, args, kwargs)
    text = json.dumps(data).replace("<", "\\u003c")
    frame = pathlib.Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    return Page(frame.replace("@@DATA@@", text).replace("@@TITLE@@", data["name"].replace("<", "")))


def data_of(kernel: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Collect what a page shows, as what JSON holds."""
    copied = functools.partial(map, lambda each: each.detach().clone() if isinstance(each, torch.Tensor) else each)
    args, kwargs = tuple(copied(args)), dict(zip(kwargs, copied(kwargs.values()), strict=True))
    programs: dict[tuple[int, ...], list[Line]] = {}
    notes: list[str] = []

    def note(line: Line) -> None:
        if line.program not in programs and len(programs) == _PROGRAMS:
            raise _Full
        programs.setdefault(line.program, []).append(line)

    try:
        debug(kernel, args, kwargs, note)
    except _Full:
        notes.append(f"Cut: only the first {_PROGRAMS} programs are shown.")
    names = [parameter.name for parameter in kernel.definition.parameters]
    given = dict(zip(names, args, strict=False)) | dict(kwargs)
    tensors = {name: each for name, each in given.items() if isinstance(each, torch.Tensor) and each.dim()}
    parameters = {name: _parameter(name, tensor, notes) for name, tensor in tensors.items()}
    shown = [_program(index, lines, parameters, notes) for index, lines in programs.items()]
    for name, parameter in parameters.items():
        uses = Counter(place for each in shown for place in each["held"].get(name, {"places": ()})["places"])
        parameter["shared"] = [place for place, count in uses.items() if count > 1]
        del parameter["where"]
    text = {str(line.location.line): line.location.text for lines in programs.values() for line in lines}
    return {
        "name": kernel.definition.name,
        "notes": list(dict.fromkeys(notes)),
        "parameters": parameters,
        "programs": shown,
        "source": dict(sorted(text.items(), key=lambda item: int(item[0]))),
    }


def _parameter(name: str, tensor: torch.Tensor, notes: list[str]) -> dict[str, Any]:
    """Lay a tensor out in rows, with the cell of each offset; what is beyond the page's cells is cut."""
    sizes = [min(size, _SIDE) for size in tensor.shape]
    columns = sizes[-1]
    while math.prod(sizes[:-1]) > _SIDE:
        largest = sizes.index(max(sizes[:-1]))
        sizes[largest] = -(-sizes[largest] // 2)
    if list(tensor.shape) != sizes:
        notes.append(f"Cut: {name} of {tuple(tensor.shape)} is shown up to {tuple(sizes)}.")
    where: dict[int, int] = {}
    for cell, index in enumerate(itertools.product(*map(range, sizes))):
        where.setdefault(sum(i * stride for i, stride in zip(index, tensor.stride(), strict=True)), cell)
    return {"shape": list(tensor.shape), "rows": math.prod(sizes[:-1]), "columns": columns, "where": where}


def _program(
    index: tuple[int, ...], lines: list[Line], parameters: Mapping[str, dict[str, Any]], notes: list[str]
) -> dict[str, Any]:
    """Collect the lines of a program, and which cells of each parameter it holds."""
    held: dict[str, dict[str, Any]] = {}
    steps = []
    if len(lines) > _LINES:
        notes.append(f"Cut: of a program's {counted(len(lines), 'line')} only the first {_LINES} are shown.")
    for line in lines[:_LINES]:
        touched = {}
        for name, how, offsets in line.touched:
            where = parameters[name]["where"] if name in parameters else {}
            flat = offsets.flatten().tolist()
            cells = sorted({where[each] for each in flat if each in where})
            found = held.setdefault(name, {"places": [], "overhang": 0, "how": []})
            found["places"] = sorted({*found["places"], *cells})
            found["overhang"] = max(found["overhang"], sum(each < 0 for each in flat))
            found["how"] = sorted({*found["how"], how})
            touched[name] = cells
        values = {name: _value(value) for name, value in line.values.items()}
        steps.append({"line": line.location.line, "values": values, "touched": touched})
    return {"index": list(index), "steps": steps, "held": held}


def _value(value: Any) -> dict[str, Any]:
    """Give the shape, type and elements of a value, None where overhang."""
    if not isinstance(value, torch.Tensor):
        return {"shape": [], "type": type(value).__name__, "elements": [str(value)]}
    overhang = getattr(value, "overhang", None)
    plain = value.as_subclass(torch.Tensor)
    flat = plain.flatten()[:_VALUES]
    numbers = flat.float().tolist() if plain.is_floating_point() else flat.tolist()
    past = [False] * len(numbers) if overhang is None else overhang.flatten()[:_VALUES].tolist()
    elements = [None if p else f"{n:.4g}" if isinstance(n, float) else str(n) for n, p in zip(numbers, past)]
    cut = plain.numel() - len(elements)
    told = {"shape": list(plain.shape), "type": str(plain.dtype).removeprefix("torch."), "elements": elements}
    return told | ({"cut": cut} if cut else {})

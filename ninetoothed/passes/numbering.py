"""Number the values of a program's text as an earlier text does, so that only what changed differs between the two.

before                          after                           after, numbered as before
    v: f32 = exp(x_1)               v: f32 = mul(x_1, c)            v_3: f32 = mul(x_1, c)
    v_1: f32 = sum(v)               v_1: f32 = exp2(v)              v: f32 = exp2(v_3)
                                    v_2: f32 = sum(v_1)             v_1: f32 = sum(v)
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator

_NAME = re.compile(r"[A-Za-z_]\w*")
# Where names stand for the first time: `x: f32 = ...`, `for k in ...` and `carry (...) -> (total, peak)`.
_DEFINED = re.compile(r"(\w+): |\bfor (\w+) in |-> \(([^)]*)\)")


def numbered_as(before: list[str], after: list[str]) -> list[str]:
    """Return the lines of `after` with the names of `before` wherever lines differ in numbers alone."""
    own, others = _defined(after), _defined(before)
    names: dict[str, str] = {}
    for line, model in _aligned(before, after, own.keys() | others.keys()):
        for name, wanted in zip(_NAME.findall(line), _NAME.findall(model), strict=True):
            if name in own and wanted in others and wanted not in names.values():
                names.setdefault(name, wanted)
    used = set(names.values())
    # A value that is in no line of `before` keeps its name where it can; else it gets one that neither text has.
    taken = {name for line in (*before, *after) for name in _NAME.findall(line)}
    for name in own:
        if name not in names:
            names[name] = name if name not in used else _fresh(name, taken)
            used.add(names[name])
            taken.add(names[name])
    return [line if _is_comment(line) else _renamed(line, names) for line in after]


def _aligned(before: list[str], after: list[str], values: set[str]) -> Iterator[tuple[str, str]]:
    """Yield each line of `after` with the line of `before` that says the same, numbers of values aside."""

    def bare(line: str) -> str:
        return _NAME.sub(lambda found: _base(found[0]) if found[0] in values else found[0], line)

    matcher = difflib.SequenceMatcher(None, list(map(bare, before)), list(map(bare, after)), autojunk=False)
    for start, own, size in matcher.get_matching_blocks():
        yield from ((after[own + i], before[start + i]) for i in range(size) if not _is_comment(after[own + i]))


def _defined(lines: list[str]) -> dict[str, None]:
    """Return the names of a program's values in order; its parameters, before the first empty line, are none."""
    body = lines[lines.index("") :] if "" in lines else lines
    found = (found for line in body if not _is_comment(line) for found in _DEFINED.findall(line))
    return {name: None for groups in found for group in groups for name in group.split(", ") if name}


def _base(name: str) -> str:
    return re.sub(r"_\d+$", "", name)


def _fresh(name: str, taken: set[str]) -> str:
    """Return a name of the same base that is not taken."""
    return next(fresh for n in itertools.count(1) if (fresh := f"{_base(name)}_{n}") not in taken)


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _renamed(line: str, names: dict[str, str]) -> str:
    return _NAME.sub(lambda found: names.get(found[0], found[0]), line)

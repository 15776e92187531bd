"""Functions that do a call again, written out as text: `repeat(args, constants)`, which returns None for another call.

Who writes a part of one adds lines to a `FunctionSource`, and gets the names of what stands in them from others:

    args, constants     what the function is called with
    x0, x1, ...         the arguments, each by itself, and after them what the call allocates
    p0, p1, ...         the addresses of those that are tensors
    c0, c1, ...         values that are no part of the text: functions, numbers, shapes (see `FunctionSource.name`)
    enter, leave        Triton's hooks, within a launch
    stream, workspace, semaphores     those of a launch with memory of its own, held until the next such launch

`call_cache` writes the beginning, which recognises a call; an executable or a `LaunchPlan` what follows, for the
arguments' `values` (`p0` or `x0`, by whether it is a tensor); `KernelWithWorkspace` and `LoadedKernel` the launch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Protocol

Repeat = Callable[[tuple, tuple], Any]


class Written(Protocol):
    """What a call led to. precision: that of float32 products, where it matters. device: the GPU to be current."""

    precision: str | None
    device: int | None

    def write(self, text: FunctionSource, values: list[str]) -> str:
        """Write what is to be done again for these values, tensors by their addresses; what the function returns."""


@dataclass
class FunctionSource:
    """The body of a function as it is written, and the names of the values in it that are no part of its text."""

    lines: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)

    def add(self, line: str) -> None:
        self.lines.append(f"    {line}\n")

    def name(self, value: Any) -> str:
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def function(self) -> Repeat:
        exec(_code("".join(("def repeat(args, constants):\n", *self.lines))), self.names)
        return self.names["repeat"]


@functools.lru_cache(maxsize=256)
def _code(text: str) -> CodeType:
    """Compiled text: that of most calls of one function differs in the values of its names alone."""
    return compile(text, "<a call seen before>", "exec")

"""The steps of a launch plan: launch a kernel, copy between tensors, set elements to 0. Each writes its text.

    LaunchStep(found, (x + 0 bytes, output + 8 bytes))     ->     a launch on p0 and p1 + 8
    CopyStep(View(0, ...), View(1, ...))                   ->     x1.as_strided(...).copy_(x0)

Tensors have numbers: those of the call come first, then what the plan allocates. `x0` is the first, `p0` its address.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ninetoothed.runtime.call_cache import FunctionBody


@dataclass(frozen=True)
class LaunchStep:
    """A kernel that a call launches.

    args: its arguments, with None for tensors. places: for each tensor (position, number, bytes): it lies so many bytes
    after the address of the argument or allocation of this number.
    """

    executable: Any
    args: tuple
    places: tuple[tuple[int, int, int], ...]

    def write(self, source: FunctionBody) -> None:
        values = [source.name(value) for value in self.args]
        for position, number, offset in self.places:
            values[position] = f"p{number} + {source.name(offset)}" if offset else f"p{number}"
        self.executable.write(source, values)


@dataclass(frozen=True)
class View:
    """A view of the tensor of this number, whose elements start `start` elements after its own.

    is_whole: whether it is that very tensor.
    """

    number: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    start: int
    is_whole: bool

    def write(self, source: FunctionBody) -> str:
        base = f"x{self.number}"
        if self.is_whole:
            return base
        size, stride, start = map(source.name, (self.size, self.stride, self.start))
        return f"{base}.as_strided({size}, {stride}, {base}.storage_offset() + {start})"


@dataclass(frozen=True)
class CopyStep:
    """A copy of elements that a call makes, converted where types differ."""

    source: View
    target: View

    def write(self, source: FunctionBody) -> None:
        source.add(f"{self.target.write(source)}.copy_({self.source.write(source)})")


@dataclass(frozen=True)
class ZeroStep:
    """Elements that a call sets to 0."""

    target: View

    def write(self, source: FunctionBody) -> None:
        source.add(f"{self.target.write(source)}.zero_()")

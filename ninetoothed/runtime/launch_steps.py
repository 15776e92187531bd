"""The steps of a launch plan: launch a kernel, copy between tensors, set elements to 0. `fast_path` writes them.

    LaunchStep(found, (x + 0 bytes, output + 8 bytes))     ->     a launch on p0 and p1 + 8
    CopyStep(View(0, ...), View(1, ...))                   ->     x1.as_strided(...).copy_(x0)

Tensors have numbers: those of the call come first, then what the plan allocates. `x0` is the first, `p0` its address.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ninetoothed.free_names import FreeName
from ninetoothed.runtime.workspace import Allocation


@dataclass(frozen=True)
class LaunchStep:
    """A kernel that a call launches.

    args: its arguments, with None for tensors. places: for each tensor (position, number, bytes): it lies so many bytes
    after the address of the argument or allocation of this number.
    """

    executable: Any
    args: tuple
    places: tuple[tuple[int, int, int], ...]


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


@dataclass(frozen=True)
class CopyStep:
    """Elements that a call sets: a copy of others, converted where types differ, or 0 without a source."""

    source: View | None
    target: View


@dataclass(frozen=True)
class LaunchPlan:
    """The steps of a call: allocate tensors, launch kernels, copy between tensors, set some to 0.

    Numbers of allocations follow those of the arguments. The first `outputs` are returned as a tuple; where that is
    0, the first is returned; nothing is done and returned where it is None. count: how many arguments there are.
    device: the GPU of what is launched. definition: of a call of a kernel, the kernel's.
    """

    count: int
    allocations: tuple[Allocation, ...] = ()
    steps: tuple[LaunchStep | CopyStep, ...] = ()
    outputs: int | None = None
    precision: str | None = None
    device: int | None = None
    free_names: tuple[FreeName, ...] = ()
    definition: Any = None
    separate: ClassVar[tuple[()]] = ()
    is_replayable: ClassVar[bool] = True

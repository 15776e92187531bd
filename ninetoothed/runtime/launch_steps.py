"""The plan of a call: what is allocated, launched and copied. `fast_path` writes it, the only form of it that runs.

    kernel(x, 0.5, z) -> Launch(passed=(TensorAddress(0), Scalar(1), TensorAddress(2), 4096)) -> launch(p0, x1, p2, c3)

Tensors have numbers: those of the call come first, then what the plan allocates. `x0` is the first, `p0` its address.
An operator's plan has the launches of its kernels, whose places are among its own numbers then:

    Launch(passed=(TensorAddress(0), 0.5, TensorAddress(1, 64), 4096))     ->     launch(..., (p0, c1, p1 + c2, c3))
    Copy(View(0, ...), View(1, ...))                       ->     x1.as_strided(...).copy_(x0)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ninetoothed.free_names import FreeName
from ninetoothed.runtime import private
from ninetoothed.runtime.aliasing import KnownPair, Pair
from ninetoothed.runtime.launching.code import Launchable
from ninetoothed.runtime.launching.descriptors import DescriptorTable
from ninetoothed.runtime.workspace import Allocation, Workspace

# `fast_path(args, constants)` returns what the call does, True for nothing; None for another call.
FastPath = Callable[[tuple, tuple], Any]


class TensorAddress(NamedTuple):
    """An address: so many bytes after that of the tensor of this number."""

    number: int
    offset: int = 0


class Scalar(NamedTuple):
    """The value of the argument of this number; of a tensor `on_host` it is read there."""

    number: int
    on_host: bool = False


@dataclass(frozen=True)
class Launch:
    """A kernel that a call launches on a GPU.

    passed: its arguments, less what `workspace` adds: places, scalars of the call, and numbers.
    """

    kernel: Launchable
    programs: tuple[int, int, int]
    passed: tuple[TensorAddress | Scalar | float, ...]
    table: DescriptorTable | None = None
    workspace: Workspace | None = None

    @property
    def is_replayable(self) -> bool:
        """Tell whether it looks at addresses alone, so that an operator's plan can do without the tensors."""
        return not any(isinstance(each, Scalar) and each.on_host for each in self.passed)


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
class Copy:
    """Elements that a call sets: a copy of others, converted where types differ, or 0 without a source."""

    source: View | None
    target: View


@dataclass(eq=False)
class LaunchPlan:
    """The way of calls of one signature: allocate tensors, then do steps. A step that is a function gets the arguments.

    Numbers of allocations follow those of the arguments. The first `outputs` are returned as a tuple; where that is
    0, the first is returned; nothing is returned where it is None. count: how many arguments there are.
    precision: that of float32 products, where it matters. device: the GPU that has to be the current one.
    definition: of a call of a kernel, the kernel's, less what is absent. separate: the pairs of arguments that may not
    share a part of their memory.
    unguarded, fast_paths: the function that runs it, once there is one, and how many others were written of it.
    """

    count: int
    steps: tuple[Launch | Copy | Callable[[tuple], Any], ...] = ()
    allocations: tuple[Allocation, ...] = ()
    outputs: int | None = None
    precision: str | None = None
    device: int | None = None
    free_names: tuple[FreeName, ...] = ()
    definition: Any = None
    separate: tuple[Pair | KnownPair, ...] = ()
    unguarded: FastPath | None = None
    fast_paths: int = 0

    @property
    def is_current(self) -> bool:
        """Tell whether it was made with these free names, and under this precision of float32 products."""
        is_other = self.precision is not None and self.precision != private.matmul_precision()
        return not is_other and all(name.is_current for name in self.free_names)

"""The state of one call: its `Execution`, and the `ProgramSlice` that is running."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

import torch

from ninetoothed import ir
from ninetoothed.backends.torch.plan import BoundPlan
from ninetoothed.backends.torch.representation import Held, held_dtype, memory_dtype
from ninetoothed.dtypes import DType


@dataclass(frozen=True, eq=False)
class Memory:
    """The memory of a tensor parameter. `aliased`: the program may write to it, so that loads must copy."""

    tensor: torch.Tensor
    dtype: DType
    aliased: bool

    @cached_property
    def flat(self) -> torch.Tensor:
        """All elements from the tensor's first one to the end of its storage."""
        first = self.tensor.storage_offset()
        count = self.tensor.untyped_storage().nbytes() // self.tensor.element_size() - first
        return self.tensor.as_strided((count,), (1,), first)


@dataclass(frozen=True, eq=False)
class Execution:
    """One call of a kernel: its sizes, memory and scalar arguments.

    run: runs a block for a slice of programs. watcher: sees each operation of one program; None in most calls.
    """

    bound: BoundPlan
    memory: Mapping[str, Memory]
    scalars: Mapping[str, Held]
    run: Callable[[ProgramSlice, ir.Block], None]
    watcher: Any = None

    @property
    def device(self) -> torch.device:
        return self.bound.device


def open_memory(arguments: Mapping[str, Any], program: ir.Program, stored: frozenset[str]) -> dict[str, Memory]:
    """Open the memory of the tensor arguments, and mark what may change while the program runs as aliased."""
    tensors = {p.name: arguments[p.name].detach() for p in program.parameters if p.role == "tensor"}
    written = [_extent(tensors[name]) for name in stored]
    memory = {}
    for parameter in program.parameters:
        if parameter.role == "tensor":
            tensor = tensors[parameter.name]
            first, last = _extent(tensor)
            aliased = any(first < end and begin < last for begin, end in written)
            wanted = memory_dtype(parameter.dtype)
            if tensor.dtype != wanted:
                tensor = tensor.view(wanted)
            memory[parameter.name] = Memory(tensor, parameter.dtype, aliased)
    return memory


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the addresses of the first byte and after the last."""
    if tensor.numel() == 0:
        return 0, 0
    span = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())) + 1
    return tensor.data_ptr(), tensor.data_ptr() + span * tensor.element_size()


@dataclass(eq=False)
class ProgramSlice:
    """A slice of programs in execution: programs `starts[d] .. starts[d] + counts[d] - 1` of each grid dimension.

    values: the results of operations so far. counters: those of loops, which all programs share.
    """

    execution: Execution
    starts: tuple[int, ...]
    counts: tuple[int, ...]
    counters: dict[str, int] = field(default_factory=dict)
    values: dict[ir.Value, Held] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        """The number of grid dimensions, which come first in every tensor."""
        return len(self.counts)

    @property
    def integers(self) -> dict[str, Any]:
        """The sizes and strides of the call, and the loop counters."""
        return {**self.execution.bound.integers, **self.counters}

    def tensor(self, value: ir.Value) -> torch.Tensor:
        """Return the value as a tensor, of one element if it is the same everywhere."""
        held = self.values[value]
        return held if isinstance(held, torch.Tensor) else self.make_tensor(held, value.type)

    def make_tensor(self, held: Held, type: ir.TileType) -> torch.Tensor:
        if isinstance(held, torch.Tensor):
            return held
        shape = (1,) * (len(self.counts) + len(type.lanes))
        return torch.full(shape, held, dtype=held_dtype(type.dtype), device=self.execution.device)

    def tile(self, value: ir.Value) -> torch.Tensor:
        """Return the value as a tensor with the true extents of the tile's axes (the grid's may still be 1)."""
        tensor = self.tensor(value)
        lanes = value.type.lanes
        if tensor.shape[self.rank :] == lanes:
            return tensor
        return tensor.expand(*tensor.shape[: self.rank], *lanes)

    def whole(self, value: ir.Value) -> torch.Tensor:
        """Return the value with the true extents of the grid and of the tile."""
        return self.tensor(value).expand(*self.counts, *value.type.lanes)

    def narrow(self, dim: int, start: int, count: int, live: Iterable[ir.Value]) -> ProgramSlice:
        """Narrow the slice to some of its programs, with the values in `live`."""
        starts = (*self.starts[:dim], self.starts[dim] + start, *self.starts[dim + 1 :])
        counts = (*self.counts[:dim], count, *self.counts[dim + 1 :])
        values = {value: narrow(self.values[value], dim, start, count) for value in live if value in self.values}
        return ProgramSlice(self.execution, starts, counts, dict(self.counters), values)

    def describe(self) -> str:
        """Name these programs, as messages do."""
        parts = [str(s) if n == 1 else f"{s}..{s + n - 1}" for s, n in zip(self.starts, self.counts)]
        single = all(count == 1 for count in self.counts)
        return f"program{'' if single else 's'} ({', '.join(parts)})"


@overload
def narrow(held: torch.Tensor, dim: int, start: int, count: int) -> torch.Tensor: ...
@overload
def narrow(held: Held, dim: int, start: int, count: int) -> Held: ...
def narrow(held: Held, dim: int, start: int, count: int) -> Held:
    """Take a part of a value along a dimension, if it varies there."""
    if not isinstance(held, torch.Tensor) or held.shape[dim] == 1:
        return held
    return held.narrow(dim, start, count)


def join(programs: ProgramSlice, parts: list[tuple[ProgramSlice, Held]], type: ir.TileType) -> Held:
    """Join the values of the parts of a slice."""
    held = [value for _, value in parts]
    if not any(isinstance(value, torch.Tensor) for value in held) and all(value == held[0] for value in held):
        return held[0]
    tensors = [part.make_tensor(value, type) for part, value in parts]
    shape = [max(extents) for extents in zip(*(tensor.shape for tensor in tensors))]
    for dim, count in enumerate(programs.counts):
        if any(part.counts[dim] < count for part, _ in parts):
            shape[dim] = count
    whole = tensors[0].new_empty(shape)
    for (part, _), tensor in zip(parts, tensors):
        place = whole
        for dim, (start, count) in enumerate(zip(part.starts, part.counts)):
            place = narrow(place, dim, start - programs.starts[dim], count)
        place.copy_(tensor)
    return whole

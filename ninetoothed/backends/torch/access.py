"""Loads and stores: strided views of memory wherever a tile is affine, gathers and scatters where it is not."""

from __future__ import annotations

import torch

from ninetoothed import ir
from ninetoothed.backends.torch.location import AccessPart, locate, narrowed, spelled_out
from ninetoothed.backends.torch.program_slice import Memory, ProgramSlice, narrow
from ninetoothed.backends.torch.representation import from_memory, memory_dtype, number, number_in_memory, to_memory


def load(programs: ProgramSlice, operation: ir.Load) -> None:
    """Load a tile; elements out of bounds are `other`."""
    access = operation.access
    memory = programs.execution.memory[access.parameter]
    located = locate(programs, operation)
    dtype = access.type.dtype
    if not located.parts or memory.tensor.numel() == 0:
        programs.values[operation.result] = number(access.other, dtype)
        return
    first, outside = located.parts[0], number_in_memory(access.other, dtype)
    if not first.box:
        result = _fetch(memory, first)
        if memory.aliased and isinstance(first.offset, int):
            result = result.clone()
    else:
        result = torch.full(located.sizes, outside, dtype=memory_dtype(dtype), device=programs.execution.device)
        for part in located.parts:
            narrowed(result, part.box).copy_(_fetch(memory, part))
    for hole in located.holes:
        narrowed(result, hole).fill_(outside)
    result = from_memory(result, dtype)
    if located.mask is not None:
        result = torch.where(located.mask, result, number(access.other, dtype))
    programs.values[operation.result] = result


def store(programs: ProgramSlice, operation: ir.Store) -> None:
    """Store a tile where it is in bounds."""
    access = operation.access
    memory = programs.execution.memory[access.parameter]
    located = locate(programs, operation)
    if memory.tensor.numel() == 0:
        return
    value = programs.tensor(operation.value)
    for part in located.parts:
        _put(memory, part, to_memory(narrowed(value, part.box), access.type.dtype), located.mask)


def destination(programs: ProgramSlice, operation: ir.Store) -> torch.Tensor | None:
    """Return the memory that a store fills, as one view; None where it takes several."""
    memory = programs.execution.memory[operation.access.parameter]
    located = locate(programs, operation)
    if len(located.parts) != 1 or located.mask is not None or memory.tensor.numel() == 0:
        return None
    (part,) = located.parts
    if part.box or isinstance(part.offset, torch.Tensor) or min(part.strides, default=0) < 0:
        return None
    return _view(memory.tensor, part.sizes, part.strides, part.offset)[0]


def _fetch(memory: Memory, part: AccessPart) -> torch.Tensor:
    if isinstance(part.offset, torch.Tensor):
        return _gather(memory, part, part.offset)
    view, flipped = _view(memory.tensor, part.sizes, part.strides, part.offset)
    return view.flip(flipped) if flipped else view


def _gather(memory: Memory, part: AccessPart, offset: torch.Tensor) -> torch.Tensor:
    """Copy what lies at each offset: single elements, or whole strided blocks."""
    block = [dim for dim, stride in enumerate(part.strides) if stride]
    if not block or min(part.strides) < 0:
        return _take(memory, spelled_out(offset, part.sizes, part.strides, offset.device))
    first = int(offset.min())
    sizes, strides = [part.sizes[dim] for dim in block], [part.strides[dim] for dim in block]
    span = int(offset.max()) - first + 1
    places = memory.tensor.as_strided((span, *sizes), (1, *strides), memory.tensor.storage_offset() + first)
    copies = places.index_select(0, (offset - first).flatten())
    return copies.view(*(n for dim, n in enumerate(offset.shape) if dim not in block), *sizes).permute(
        _positions([dim for dim in range(offset.dim()) if dim not in block] + block)
    )


def _take(memory: Memory, offset: torch.Tensor) -> torch.Tensor:
    """Compute `memory.flat.take(offset)`, only faster."""
    return memory.flat.index_select(0, offset.reshape(-1)).view(offset.shape)


def _positions(order: list[int]) -> list[int]:
    return [order.index(dim) for dim in range(len(order))]


def _put(memory: Memory, part: AccessPart, value: torch.Tensor, mask: torch.Tensor | None) -> None:
    """Write a tile into a part of memory, where the mask holds."""
    # Of several elements that go to one place any may win. PyTorch needs it deterministic: the last one does.
    for dim, extent in enumerate(value.shape):
        if extent > 1 and part.sizes[dim] == 1:
            value = value.narrow(dim, extent - 1, 1)
    if isinstance(part.offset, torch.Tensor):
        offset = spelled_out(part.offset, part.sizes, part.strides, value.device)
        if mask is not None:
            offset, value, mask = torch.broadcast_tensors(offset, value, mask)
            offset, value = offset[mask], value[mask]
        memory.flat[offset] = value
        return
    sizes = list(part.sizes)
    for dim, stride in enumerate(part.strides):
        if stride == 0 and sizes[dim] > 1:
            value = narrow(value, dim, sizes[dim] - 1, 1)
            sizes[dim] = 1
    view, flipped = _view(memory.tensor, tuple(sizes), part.strides, part.offset)
    view.copy_(value.flip([dim for dim in flipped if value.shape[dim] > 1]) if flipped else value)


def _view(
    tensor: torch.Tensor, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> tuple[torch.Tensor, tuple[int, ...]]:
    """Make a strided view, and name the dimensions along which it runs backwards: PyTorch has no negative strides."""
    offset += int(tensor.storage_offset())
    if min(strides, default=0) >= 0:
        return tensor.as_strided(sizes, strides, offset), ()
    flipped = tuple(dim for dim, stride in enumerate(strides) if stride < 0)
    offset += sum(strides[dim] * (sizes[dim] - 1) for dim in flipped)
    return tensor.as_strided(sizes, [abs(stride) for stride in strides], offset), flipped

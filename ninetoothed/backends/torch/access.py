"""Loads and stores: strided views of memory wherever a tile is affine, gathers and scatters where it is not."""

from __future__ import annotations

import torch

from ninetoothed import ir
from ninetoothed.backends.torch.location import AccessPart, ScatteredTile, locate, narrowed
from ninetoothed.backends.torch.program_slice import ProgramSlice
from ninetoothed.backends.torch.representation import from_memory, memory_dtype, number, number_in_memory, to_memory


def load(programs: ProgramSlice, operation: ir.Load) -> None:
    """Load a tile; elements out of bounds are `other`."""
    access = operation.access
    memory = programs.execution.memory[access.parameter]
    located = locate(programs, operation)
    dtype = access.type.dtype
    if memory.tensor.numel() == 0 or (not isinstance(located, ScatteredTile) and not located.parts):
        programs.values[operation.result] = number(access.other, dtype)
        return
    if isinstance(located, ScatteredTile):
        # `memory.flat.take(offset)`, only faster.
        flat = memory.flat.index_select(0, located.offset.reshape(-1)).view(located.offset.shape)
        result = from_memory(flat, dtype)
        if located.mask is not None:
            result = torch.where(located.mask, result, number(access.other, dtype))
    elif not located.parts[0].box:
        (part,) = located.parts
        view = _read(memory.tensor, part)
        result = from_memory(view.clone() if memory.aliased else view, dtype)
    else:
        outside = number_in_memory(access.other, dtype)
        tile = torch.full(located.sizes, outside, dtype=memory_dtype(dtype), device=programs.execution.device)
        for part in located.parts:
            narrowed(tile, part.box).copy_(_read(memory.tensor, part))
        result = from_memory(tile, dtype)
    programs.values[operation.result] = result


def store(programs: ProgramSlice, operation: ir.Store) -> None:
    """Store a tile where it is in bounds."""
    access = operation.access
    memory = programs.execution.memory[access.parameter]
    located = locate(programs, operation)
    if memory.tensor.numel() == 0:
        return
    value = programs.tensor(operation.value)
    if isinstance(located, ScatteredTile):
        value = to_memory(_last(value, located.offset.shape), access.type.dtype)
        if located.mask is None:
            memory.flat[located.offset] = value
        else:
            offset, value, mask = torch.broadcast_tensors(located.offset, value, located.mask)
            memory.flat[offset[mask]] = value[mask]
        return
    for part in located.parts:
        _write(memory.tensor, part, to_memory(narrowed(value, part.box), access.type.dtype))


def _last(value: torch.Tensor, sizes: tuple[int, ...]) -> torch.Tensor:
    """Take the last of several elements that go to one place: any may win, and PyTorch needs it deterministic."""
    for dim, extent in enumerate(value.shape):
        if extent > 1 and sizes[dim] == 1:
            value = value.narrow(dim, extent - 1, 1)
    return value


def _read(tensor: torch.Tensor, part: AccessPart) -> torch.Tensor:
    view, flipped = _view(tensor, part.sizes, part.strides, part.offset)
    return view.flip(flipped) if flipped else view


def _write(tensor: torch.Tensor, part: AccessPart, value: torch.Tensor) -> None:
    sizes = tuple(1 if stride == 0 else size for size, stride in zip(part.sizes, part.strides))
    value = _last(value, sizes)
    view, flipped = _view(tensor, sizes, part.strides, part.offset)
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

"""The primitives that rearrange tiles. Most make views; axes along which a tile was broadcast keep one element."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ninetoothed import ir
from ninetoothed.backends.torch.program_slice import ProgramSlice
from ninetoothed.backends.torch.representation import Held


def _full(programs: ProgramSlice, operation: ir.Apply) -> Held:
    held = programs.values[operation.operands[0]]
    if not isinstance(held, torch.Tensor):
        return held
    return held.reshape(*held.shape[: programs.rank], *(1,) * len(operation.result.type.lanes))


def _broadcast(programs: ProgramSlice, operation: ir.Apply) -> Held:
    (operand,) = operation.operands
    held = programs.values[operand]
    if not isinstance(held, torch.Tensor):
        return held
    missing = len(operation.result.type.lanes) - len(operand.type.lanes)
    return (
        held.reshape(*held.shape[: programs.rank], *(1,) * missing, *held.shape[programs.rank :]) if missing else held
    )


def _expand_dims(programs: ProgramSlice, operation: ir.Apply) -> Held:
    held = programs.values[operation.operands[0]]
    if not isinstance(held, torch.Tensor):
        return held
    axes = operation.attribute("axis")
    rank = len(operation.result.type.lanes)
    for axis in sorted(a % rank for a in (axes if isinstance(axes, tuple | list) else (axes,))):
        held = held.unsqueeze(programs.rank + axis)
    return held


def _reshape(programs: ProgramSlice, operation: ir.Apply) -> Held:
    (operand,) = operation.operands
    held = programs.values[operand]
    if not isinstance(held, torch.Tensor):
        return held
    lanes = operation.result.type.lanes
    if held.shape[programs.rank :].numel() == 1:
        return held.reshape(*held.shape[: programs.rank], *(1,) * len(lanes))
    return programs.tile(operand).reshape(*held.shape[: programs.rank], *lanes)


def _permute(programs: ProgramSlice, operation: ir.Apply) -> Held:
    held = programs.values[operation.operands[0]]
    if not isinstance(held, torch.Tensor):
        return held
    rank = len(operation.result.type.lanes)
    return held.permute(*range(programs.rank), *(programs.rank + dim % rank for dim in operation.attribute("dims")))


def _join(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    return torch.stack(torch.broadcast_tensors(*(programs.tensor(value) for value in operation.operands)), -1)


def _split(programs: ProgramSlice, operation: ir.Apply) -> tuple[torch.Tensor, torch.Tensor]:
    tile = programs.tile(operation.operands[0])
    return tile[..., 0], tile[..., 1]


def _cat(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    tiles = [programs.tile(value) for value in operation.operands]
    grid = torch.broadcast_shapes(*(tile.shape[: programs.rank] for tile in tiles))
    return torch.cat([tile.expand(*grid, *tile.shape[programs.rank :]) for tile in tiles], programs.rank)


def _flip(programs: ProgramSlice, operation: ir.Apply) -> Held:
    held = programs.values[operation.operands[0]]
    if not isinstance(held, torch.Tensor):
        return held
    dims = lane_dims(programs, operation, operation.attribute("axis"))
    return _by_bits(held, lambda tensor: tensor.flip(dims))


def _by_bits(tensor: torch.Tensor, move: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Move elements about; of floats of eight bits PyTorch does so with their bits alone."""
    if tensor.element_size() > 1 or not tensor.is_floating_point():
        return move(tensor)
    return move(tensor.view(torch.uint8)).view(tensor.dtype)


def _gather(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    source, index = (programs.tile(value) for value in operation.operands)
    grid = torch.broadcast_shapes(source.shape[: programs.rank], index.shape[: programs.rank])
    source, index = (tile.expand(*grid, *tile.shape[programs.rank :]) for tile in (source, index))
    (dim,) = lane_dims(programs, operation, operation.attribute("axis"))
    # Lanes that do not count may hold any index.
    index = index.to(torch.int64).clamp(0, source.shape[dim] - 1)
    return _by_bits(source, lambda tensor: tensor.gather(dim, index))


def lane_dims(programs: ProgramSlice, operation: ir.Apply, axis: int | None) -> tuple[int, ...]:
    """The dimensions of tensors that stand for an axis of the first operand, or for all of them where it is None."""
    rank = len(operation.operands[0].type.lanes)
    axes = range(rank) if axis is None else axis if isinstance(axis, tuple | list) else (axis,)
    return tuple(programs.rank + a % rank for a in axes)


SHAPES = {
    "full": _full,
    "broadcast": _broadcast,
    "expand_dims": _expand_dims,
    "reshape": _reshape,
    "permute": _permute,
    "join": _join,
    "split": _split,
    "cat": _cat,
    "flip": _flip,
    "gather": _gather,
}

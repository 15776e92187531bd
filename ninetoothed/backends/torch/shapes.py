"""The primitives that rearrange tiles. Most make views; axes along which a tile was broadcast keep one element."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ninetoothed import ir
from ninetoothed.backends.torch.elementwise import Function
from ninetoothed.backends.torch.program_slice import ProgramSlice
from ninetoothed.backends.torch.representation import Held


def _of_tensor(function: Callable[[ProgramSlice, ir.Apply, torch.Tensor], torch.Tensor]) -> Function:
    """Wrap a function that rearranges a tensor: a number is the same however it is rearranged."""

    def apply(programs: ProgramSlice, operation: ir.Apply) -> Held:
        held = programs.values[operation.operands[0]]
        return function(programs, operation, held) if isinstance(held, torch.Tensor) else held

    return apply


def _full(programs: ProgramSlice, operation: ir.Apply, held: torch.Tensor) -> torch.Tensor:
    return held.reshape(*held.shape[: programs.rank], *(1,) * len(operation.result.type.lanes))


def _expand_dims(programs: ProgramSlice, operation: ir.Apply, held: torch.Tensor) -> torch.Tensor:
    return held.unsqueeze(programs.rank + operation.attribute("axis") % len(operation.result.type.lanes))


def _reshape(programs: ProgramSlice, operation: ir.Apply, held: torch.Tensor) -> torch.Tensor:
    if held.shape[programs.rank :].numel() == 1:
        return _full(programs, operation, held)
    return programs.tile(operation.operands[0]).reshape(*held.shape[: programs.rank], *operation.result.type.lanes)


def _permute(programs: ProgramSlice, operation: ir.Apply, held: torch.Tensor) -> torch.Tensor:
    rank = len(operation.result.type.lanes)
    return held.permute(*range(programs.rank), *(programs.rank + dim % rank for dim in operation.attribute("dims")))


def _flip(programs: ProgramSlice, operation: ir.Apply, held: torch.Tensor) -> torch.Tensor:
    dims = lane_dims(programs, operation)
    return _by_bits(held, lambda tensor: tensor.flip(dims))


def _join(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    return torch.stack(torch.broadcast_tensors(*(programs.tensor(value) for value in operation.operands)), -1)


def _split(programs: ProgramSlice, operation: ir.Apply) -> tuple[torch.Tensor, torch.Tensor]:
    tile = programs.tile(operation.operands[0])
    return tile[..., 0], tile[..., 1]


def _cat(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    tiles = [programs.tile(value) for value in operation.operands]
    grid = torch.broadcast_shapes(*(tile.shape[: programs.rank] for tile in tiles))
    return torch.cat([tile.expand(*grid, *tile.shape[programs.rank :]) for tile in tiles], programs.rank)


def _by_bits(tensor: torch.Tensor, move: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Move elements about; of floats of eight bits PyTorch does so with their bits alone."""
    if tensor.element_size() > 1 or not tensor.is_floating_point():
        return move(tensor)
    return move(tensor.view(torch.uint8)).view(tensor.dtype)


def _gather(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    source, index = (programs.tile(value) for value in operation.operands)
    grid = torch.broadcast_shapes(source.shape[: programs.rank], index.shape[: programs.rank])
    source, index = (tile.expand(*grid, *tile.shape[programs.rank :]) for tile in (source, index))
    (dim,) = lane_dims(programs, operation)
    # Lanes that do not count may hold any index.
    index = index.to(torch.int64).clamp(0, source.shape[dim] - 1)
    return _by_bits(source, lambda tensor: tensor.gather(dim, index))


def lane_dims(programs: ProgramSlice, operation: ir.Apply) -> tuple[int, ...]:
    """Return the dimensions of tensors for the `axis` of an operation; for None, those of all axes of its operand."""
    rank, axis = len(operation.operands[0].type.lanes), operation.attribute("axis")
    return tuple(programs.rank + a % rank for a in (range(rank) if axis is None else (axis,)))


SHAPES: dict[str, Function] = {
    "full": _of_tensor(_full),
    "broadcast": _of_tensor(lambda programs, operation, held: held),
    "expand_dims": _of_tensor(_expand_dims),
    "reshape": _of_tensor(_reshape),
    "permute": _of_tensor(_permute),
    "flip": _of_tensor(_flip),
    "join": _join,
    "split": _split,
    "cat": _cat,
    "gather": _gather,
}

"""The primitives that combine the elements of a tile along an axis."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial

import torch

from ninetoothed import dtypes, ir
from ninetoothed.backends.torch.elementwise import Function, propagates_nan
from ninetoothed.backends.torch.program_slice import ProgramSlice
from ninetoothed.backends.torch.representation import SIGN, cast, held_dtype, wrap
from ninetoothed.backends.torch.shapes import lane_dims

Tensors = tuple[torch.Tensor, ...]
Combine = Callable[[Tensors, Tensors], Tensors]


def _sum(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    tile, dims, keep = _reduced(programs, operation)
    dtype = operation.result.type.dtype
    return wrap(tile.sum(dims, keepdim=keep, dtype=held_dtype(dtype)), dtype)


def _reduced(programs: ProgramSlice, operation: ir.Apply) -> tuple[torch.Tensor, tuple[int, ...], bool]:
    dims = lane_dims(programs, operation)
    return programs.tile(operation.operands[0]), dims, bool(operation.attribute("keep_dims"))


def _extremum(programs: ProgramSlice, operation: ir.Apply, *, function: Callable, worst: float) -> torch.Tensor:
    """Find the largest or smallest element that is not NaN."""
    tile, dims, keep = _reduced(programs, operation)
    if operation.operands[0].type.dtype == dtypes.uint64:
        return function(tile ^ SIGN, dims, keep) ^ SIGN
    result = function(tile, dims, keep)
    if tile.is_floating_point() and not propagates_nan(operation) and bool(torch.isnan(result).any()):
        numbers = function(torch.where(torch.isnan(tile), worst, tile), dims, keep)
        result = torch.where(torch.isnan(tile).all(dims, keep), torch.nan, numbers)
    return result.to(held_dtype(operation.result.type.dtype))


def _position(programs: ProgramSlice, operation: ir.Apply, *, function: Callable) -> torch.Tensor:
    """Find the first position of the extremum, as PyTorch does."""
    tile, dims, keep = _reduced(programs, operation)
    if operation.operands[0].type.dtype == dtypes.uint64:
        tile = tile ^ SIGN
    if tile.dtype == torch.bool:
        tile = tile.to(torch.uint8)
    grid = tile.shape[: programs.rank]
    if len(dims) == 1:
        result = function(tile, dims[0], keep)
    else:
        result = function(tile.reshape(*grid, -1), programs.rank)
        result = result.reshape(*grid, *(1,) * len(dims)) if keep else result
    return result.to(held_dtype(operation.result.type.dtype))


def _bits(programs: ProgramSlice, operation: ir.Apply, *, function: Callable) -> torch.Tensor:
    """Combine integers by an operator of bits."""
    (result,) = _reduce_with(programs, operation, lambda a, b: (function(a[0], b[0]),))
    return result


def _reduce(programs: ProgramSlice, operation: ir.Apply):
    results = _reduce_with(programs, operation, _combiner(programs, operation.attribute("combine")))
    return results if len(results) > 1 else results[0]


def _reduce_with(programs: ProgramSlice, operation: ir.Apply, combine: Combine) -> Tensors:
    """Combine neighbours, halving their number, until one element is left."""
    dims = lane_dims(programs, operation)
    tiles = _common(programs, operation)
    if len(dims) > 1:
        tiles = tuple(tile.flatten(dims[0], dims[-1]) for tile in tiles)
    dim = dims[0]
    while tiles[0].shape[dim] > 1:
        extent = tiles[0].shape[dim]
        pairs = combine(_every_second(tiles, dim, 0, extent // 2), _every_second(tiles, dim, 1, extent // 2))
        rest = tuple(tile.narrow(dim, extent - extent % 2, extent % 2) for tile in tiles)
        tiles = tuple(torch.cat((a, b), dim) for a, b in zip(pairs, rest)) if extent % 2 else pairs
    tiles = tuple(tile.squeeze(dim) for tile in tiles)
    if operation.attribute("keep_dims"):
        for d in dims:
            tiles = tuple(tile.unsqueeze(d) for tile in tiles)
    return tiles


def _every_second(tiles: Tensors, dim: int, first: int, count: int) -> Tensors:
    index = torch.arange(first, first + 2 * count, 2, device=tiles[0].device)
    return tuple(tile.index_select(dim, index) for tile in tiles)


def _common(programs: ProgramSlice, operation: ir.Apply) -> Tensors:
    return torch.broadcast_tensors(*(programs.tile(value) for value in operation.operands))


def _combiner(programs: ProgramSlice, function: ir.Lambda) -> Combine:
    """Let a combining function of scalars run on whole tensors, element by element."""

    def combine(left: Tensors, right: Tensors) -> Tensors:
        inner = ProgramSlice(
            programs.execution, programs.starts, programs.counts, dict(programs.counters), dict(programs.values)
        )
        inner.values.update(zip(function.arguments, (*left, *right), strict=True))
        inner.execution.run(inner, function.body)
        results = [inner.make_tensor(inner.values[value], value.type) for value in function.yields]
        return tuple(result.expand(left[0].shape) for result in results)

    return combine


def _cumulative(programs: ProgramSlice, operation: ir.Apply, *, function: Callable) -> torch.Tensor:
    (dim,) = lane_dims(programs, operation)
    dtype = operation.result.type.dtype
    tile = programs.tile(operation.operands[0])
    reverse = operation.attribute("reverse")
    tile = tile.flip(dim) if reverse else tile
    result = wrap(function(cast(tile, operation.operands[0].type.dtype, dtype), dim, dtype=held_dtype(dtype)), dtype)
    return result.flip(dim) if reverse else result


def _associative_scan(programs: ProgramSlice, operation: ir.Apply):
    combine = _combiner(programs, operation.attribute("combine"))
    (dim,) = lane_dims(programs, operation)
    tiles = _common(programs, operation)
    reverse = operation.attribute("reverse")
    tiles = tuple(tile.flip(dim) for tile in tiles) if reverse else tiles
    tiles = scan(tiles, dim, combine)
    tiles = tuple(tile.flip(dim) for tile in tiles) if reverse else tiles
    return tiles if len(tiles) > 1 else tiles[0]


def scan(tiles: Tensors, dim: int, combine: Combine) -> Tensors:
    """Compute inclusive prefixes: after the step of distance d, each element combines the 2d that end with it."""
    distance, extent = 1, tiles[0].shape[dim]
    while distance < extent:
        kept = extent - distance
        before = tuple(tile.narrow(dim, 0, kept) for tile in tiles)
        after = tuple(tile.narrow(dim, distance, kept) for tile in tiles)
        heads = tuple(tile.narrow(dim, 0, distance) for tile in tiles)
        tiles = tuple(torch.cat(both, dim) for both in zip(heads, combine(before, after)))
        distance *= 2
    return tiles


def _sort(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    tile = programs.tile(operation.operands[0])
    unsigned = operation.operands[0].type.dtype == dtypes.uint64
    tile = tile ^ SIGN if unsigned else tile
    result = tile.sort(-1, descending=bool(operation.attribute("descending"))).values
    return result ^ SIGN if unsigned else result


def _histogram(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    """Count the numbers from 0 to num_bins - 1 where the mask is set."""
    tile = programs.tile(operation.operands[0]).to(torch.int64)
    bins = operation.attribute("num_bins")
    counted = (tile >= 0) & (tile < bins)
    for mask in operation.operands[1:]:
        counted = counted & programs.tile(mask)
    tile = tile.expand(counted.shape)
    counts = torch.zeros(*tile.shape[:-1], bins, dtype=torch.int64, device=tile.device)
    counts.scatter_add_(-1, tile.clamp(0, bins - 1), counted.to(torch.int64))
    return counts.to(held_dtype(operation.result.type.dtype))


REDUCTIONS: dict[str, Function] = {
    "sum": _sum,
    "max": partial(_extremum, function=torch.amax, worst=-torch.inf),
    "min": partial(_extremum, function=torch.amin, worst=torch.inf),
    "xor_sum": partial(_bits, function=operator.xor),
    "reduce_or": partial(_bits, function=operator.or_),
    "argmax": partial(_position, function=torch.argmax),
    "argmin": partial(_position, function=torch.argmin),
    "reduce": _reduce,
    "cumsum": partial(_cumulative, function=torch.cumsum),
    "cumprod": partial(_cumulative, function=torch.cumprod),
    "associative_scan": _associative_scan,
    "sort": _sort,
    "histogram": _histogram,
}

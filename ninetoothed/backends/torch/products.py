"""Matrix products of all programs of a slice, in as few and as large calls as they allow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch

from ninetoothed import ir
from ninetoothed.backends.torch.program_slice import ProgramSlice
from ninetoothed.backends.torch.representation import held_dtype


def dot(programs: ProgramSlice, operation: ir.Apply) -> torch.Tensor:
    """Multiply lhs (..., M, K) by rhs (..., K, N), and add the accumulator, if any.

    Halves are multiplied in float32, as tensor cores do; small integers in float64, where their sums are exact.
    """
    lhs, rhs = (programs.tile(value) for value in operation.operands[:2])
    target = held_dtype(operation.result.type.dtype)
    compute = _compute_dtype(lhs.dtype, target)
    result = _as(multiply(_as(lhs, compute), _as(rhs, compute)), target)
    return programs.values[operation.operands[2]] + result if len(operation.operands) == 3 else result


def _as(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor if tensor.dtype == dtype else tensor.to(dtype)


def _compute_dtype(given: torch.dtype, target: torch.dtype) -> torch.dtype:
    if not given.is_floating_point:
        return torch.float64
    return torch.float64 if torch.float64 in (given, target) else torch.float32


def multiply(lhs: torch.Tensor, rhs: torch.Tensor) -> torch.Tensor:
    """Compute `lhs @ rhs` in batches; dimensions in which one operand does not vary are neither copied nor repeated."""
    layout = _layout(lhs.shape, rhs.shape)
    lhs = _permuted(lhs, layout.lhs_order).reshape(layout.lhs_shape)
    rhs = _permuted(rhs, layout.rhs_order).reshape(layout.rhs_shape)
    product = torch.mm(lhs, rhs) if lhs.dim() == 2 else torch.bmm(lhs, rhs)
    return _permuted(product.view(layout.result_shape), layout.result_order)


def _permuted(tensor: torch.Tensor, order: tuple[int, ...] | None) -> torch.Tensor:
    return tensor if order is None else tensor.permute(order)


@dataclass(frozen=True)
class _Layout:
    """The order and joint shape of the dimensions of both factors, and of those of the product.

    An order is None where there is nothing to permute.
    """

    lhs_order: tuple[int, ...] | None
    lhs_shape: tuple[int, ...]
    rhs_order: tuple[int, ...] | None
    rhs_shape: tuple[int, ...]
    result_shape: tuple[int, ...]
    result_order: tuple[int, ...] | None


@lru_cache(maxsize=1024)
def _layout(lhs: torch.Size, rhs: torch.Size) -> _Layout:
    """Lay out the product of two shapes.

    A dimension in which only `lhs` varies counts as more of its rows, one in which only `rhs` varies as more of its
    columns: the tiles of a blocked matrix product become one large product. Others form the batch.
    """
    batch: list[int] = []
    left: list[int] = []
    right: list[int] = []
    for dim, (a, b) in enumerate(zip(lhs[:-2], rhs[:-2], strict=True)):
        (batch if (a > 1) == (b > 1) else left if a > 1 else right).append(dim)
    m = k = len(lhs) - 2
    n = len(lhs) - 1
    count = math.prod(lhs[dim] for dim in batch)
    sizes: tuple[int, ...] = () if count == 1 else (count,)
    rows, columns = math.prod(lhs[dim] for dim in (*left, m)), math.prod(rhs[dim] for dim in (*right, n))
    order = [*batch, *left, m, *right, n]
    return _Layout(
        # A dimension that does not vary has one element, and may stand anywhere.
        _order(*batch, *right, *left, m, n),
        (*sizes, rows, lhs[-1]),
        _order(*batch, *left, k, *right, n),
        (*sizes, lhs[-1], columns),
        tuple((rhs if dim in right or dim == n else lhs)[dim] for dim in order),
        _order(*(order.index(dim) for dim in range(len(order)))),
    )


def _order(*dims: int) -> tuple[int, ...] | None:
    return None if dims == tuple(range(len(dims))) else dims

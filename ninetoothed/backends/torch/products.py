"""Matrix products of all programs of a slice, in as few and as large calls as they allow."""

from __future__ import annotations

import torch

from ninetoothed import ir
from ninetoothed.backends.torch.frame import Frame
from ninetoothed.backends.torch.representation import held_dtype


def dot(frame: Frame, operation: ir.Apply) -> torch.Tensor:
    """lhs (..., M, K) times rhs (..., K, N), plus the accumulator where there is one.

    Halves are multiplied in float32, as tensor cores do; small integers in float64, where their sums are exact.
    """
    lhs, rhs = (frame.tile(value) for value in operation.operands[:2])
    target = held_dtype(operation.result.type.dtype)
    compute = _compute_dtype(lhs.dtype, target)
    result = multiply(lhs.to(compute), rhs.to(compute)).to(target)
    if len(operation.operands) == 3:
        result = frame.values[operation.operands[2]] + result
    return result


def _compute_dtype(given: torch.dtype, target: torch.dtype) -> torch.dtype:
    if not given.is_floating_point:
        return torch.float64
    return torch.float64 if torch.float64 in (given, target) else torch.float32


def multiply(lhs: torch.Tensor, rhs: torch.Tensor) -> torch.Tensor:
    """Batched `lhs @ rhs` that neither copies nor repeats along dimensions in which one operand does not vary.

    A dimension in which only `lhs` varies counts as more of its rows, one in which only `rhs` varies as more of its
    columns: the tiles of a blocked matrix product become one large product.
    """
    batch, left, right = [], [], []
    for dim, (a, b) in enumerate(zip(lhs.shape[:-2], rhs.shape[:-2], strict=True)):
        (batch if (a > 1) == (b > 1) else left if a > 1 else right).append(dim)
    if not left and not right:
        return torch.matmul(lhs, rhs)
    m, k, n = lhs.dim() - 2, lhs.dim() - 1, rhs.dim() - 1
    sizes = [lhs.shape[dim] for dim in batch]
    rows, columns = [lhs.shape[dim] for dim in (*left, m)], [rhs.shape[dim] for dim in (*right, n)]
    # Size-1 dimensions go anywhere: they are among the batch, or 1 on the side that does not vary.
    lhs = lhs.permute(*batch, *right, *left, m, k).reshape(*sizes, -1, lhs.shape[k])
    rhs = rhs.permute(*batch, *left, m, *right, n).reshape(*sizes, rhs.shape[m], -1)
    if all(size == 1 for size in sizes):
        product = torch.mm(lhs.reshape(lhs.shape[-2:]), rhs.reshape(rhs.shape[-2:]))
    else:
        product = torch.matmul(lhs, rhs)
    product = product.view(*sizes, *rows, *columns)
    order = [*batch, *left, m, *right, n]
    return product.permute([order.index(dim) for dim in range(len(order))])

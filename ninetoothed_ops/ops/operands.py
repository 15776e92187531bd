"""Operands of products as the GPU copies them best, tile by tile: rows that start where sectors of memory do."""

import torch

from ..kernels import padded

# Below that many multiplications a copy costs more than it saves.
FEWEST_PRODUCTS = 2**27
# Tiles are copied by vectors of 16 bytes, out of sectors of 32. Rows that start inside sectors are read at half the
# rate, which keeps up with a product where one of its operands has them, not where both do: then the one that tiles
# take more of is copied, if it is read often enough.
VECTOR, SECTOR = 16, 32
FEWEST_ROWS = 2048


def aligned(lhs: torch.Tensor, rhs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Copy the operands of a product, (..., M, K) and (..., K, N), where that makes it faster."""
    if not (lhs.is_cuda and rhs.is_cuda):
        return lhs, rhs
    chosen = slow_to_read(lhs, rhs)

    lhs, rhs = (with_padded_rows(operand) if slow else operand for operand, slow in zip((lhs, rhs), chosen))
    return lhs, rhs


def aligned_addend(addend: torch.Tensor, depth: int) -> torch.Tensor:
    """Copy what is added to products of this depth, (M, N), where that is faster; not if it repeats itself."""
    is_large = addend.numel() * depth >= FEWEST_PRODUCTS and 0 not in addend.stride()

    return with_padded_rows(addend) if addend.is_cuda and is_large and _is_scattered(addend) else addend


def slow_to_read(lhs: torch.Tensor, rhs: torch.Tensor) -> tuple[bool, bool]:
    """Choose which of two operands in halves a GPU had better copy, by sizes, strides and alignment."""
    rows = lhs.shape[-2]
    if rows * rhs.numel() < FEWEST_PRODUCTS or lhs.itemsize != 2 or rhs.itemsize != 2:
        return False, False
    are_scattered = _is_scattered(lhs), _is_scattered(rhs)
    are_odd = not any(are_scattered) and _start_off(lhs, SECTOR) and _start_off(rhs, SECTOR)

    return are_scattered[0], are_scattered[1] or (are_odd and rows >= FEWEST_ROWS)


def _is_scattered(operand: torch.Tensor) -> bool:
    """Tell whether no vector of halves can be taken out of a row."""
    return operand.itemsize == 2 and (operand.data_ptr() % VECTOR != 0 or _start_off(operand, VECTOR))


def _start_off(operand: torch.Tensor, boundary: int) -> bool:
    """Tell whether rows, along the dense dimension, start at places that are no multiples of so many bytes."""
    strides = [stride for stride, size in zip(operand.stride(), operand.shape) if size != 1]

    return 1 not in strides or any(stride * operand.itemsize % boundary for stride in strides if stride != 1)


def with_padded_rows(operand: torch.Tensor) -> torch.Tensor:
    """A copy of matrices, (..., M, N), whose rows start at sectors; along the same dimension where one is dense."""
    is_turned = operand.stride(-1) != 1 and operand.stride(-2) == 1
    source = operand.mT if is_turned else operand
    length = source.shape[-1]
    rows = source.new_empty((*source.shape[:-1], -(-length // padded.ALIGNMENT) * padded.ALIGNMENT))
    kernel = padded.make()
    kernel(*(tensor if tensor.ndim == 3 else tensor[None] for tensor in (source, rows)))
    rows = rows[..., :length]

    return rows.mT if is_turned else rows

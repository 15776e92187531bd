"""Gradients of a product of matrices, which are products: grad @ rhs^T and lhs^T @ grad."""

from collections.abc import Callable

import torch

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def save_operands(ctx, lhs: torch.Tensor, rhs: torch.Tensor, position: int) -> None:
    """Save the operands of a product that its gradients need; the first is the argument at `position`."""
    needs_lhs, needs_rhs = ctx.needs_input_grad[position : position + 2]
    ctx.save_for_backward(lhs if needs_rhs else None, rhs if needs_lhs else None)
    ctx.are_turned = needs_lhs and _is_turned(lhs), needs_rhs and _is_turned(rhs)


def operand_gradients(ctx, grad: torch.Tensor, product: Product) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Compute the gradients that are needed, each in the layout of its operand: columns that are dense stay dense."""
    (lhs, rhs), (is_lhs_turned, is_rhs_turned) = ctx.saved_tensors, ctx.are_turned
    of_lhs = None if rhs is None else multiply(product, grad, rhs.mT, is_lhs_turned)
    of_rhs = None if lhs is None else multiply(product, lhs.mT, grad, is_rhs_turned)

    return of_lhs, of_rhs


def multiply(product: Product, lhs: torch.Tensor, rhs: torch.Tensor, is_turned: bool) -> torch.Tensor:
    """Multiply matrices; (rhs^T @ lhs^T)^T is the same product with its columns dense."""
    return product(rhs.mT, lhs.mT).mT if is_turned else product(lhs, rhs)


def _is_turned(operand: torch.Tensor) -> bool:
    """Tell whether an operand is a dense matrix whose columns are the runs of memory, as PyTorch's products ask it."""
    return operand.ndim == 2 and operand.stride() == (1, operand.shape[0])

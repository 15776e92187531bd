"""`jsd(Tensor input, Tensor target, Tensor? labels=None, SymInt ignore_index=-100, float beta=0.5) -> Tensor`.

The divergence of each row, which the function reduces. And `jsd_backward`, its gradients; those of gradients are
written out in PyTorch's own operations.
"""

import torch

from ninetoothed.errors import ArgumentError

from ..kernels import jsd as kernels, jsd_backward as gradient_kernels
from ..kernels.cross_entropy import chunk_of
from ..registration import of_file
from . import readers
from .checks import alike, check_supported
from .cross_entropy import REDUCTIONS
from .layout import same_shape
from .rows import empty_where, wide
from .written_losses import second_gradients


def allocate(input, target, labels=None, ignore_index=-100, beta=0.5):
    check_supported("jsd", (input, target))
    fits = input.ndim > 0 and alike(input, target) and same_shape(input.shape, target.shape) and 0 <= beta <= 1
    if labels is not None:
        are_classes = labels.dtype in (torch.int64, torch.int32) and labels.device == input.device
        fits = fits and are_classes and same_shape(labels.shape, input.shape[:-1])
    if not fits:
        given = "none" if labels is None else f"{list(labels.shape)} {labels.dtype}"
        raise ArgumentError(
            f"ninetoothed::jsd takes logarithms (..., classes) and a target like them, labels (...) of int64 or int32 "
            f"or None, and a beta from 0 to 1, but got {list(input.shape)} {input.dtype}, {list(target.shape)} "
            f"{target.dtype}, labels {given} and beta={beta}"
        )

    return input.new_empty(input.shape[:-1], dtype=wide(input))


def launch(output, input, target, labels=None, ignore_index=-100, beta=0.5):
    losses = output.view(-1)
    kernel = kernels.make(chunk_of(input.shape[-1]))
    kernel(*_rows(input, target), *_of_rows(labels, losses), ignore_index, beta, losses, *_flags(labels, beta))


def _rows(*tensors) -> list[torch.Tensor]:
    return [each.reshape(-1, each.shape[-1]) if each.numel() else each.flatten(end_dim=-2) for each in tensors]


def _of_rows(labels, unread) -> tuple[torch.Tensor]:
    return (unread if labels is None else labels.reshape(-1),)


def _flags(labels, beta) -> tuple[bool, int]:
    return labels is not None, int(beta) if beta in (0, 1) else 2


def backward(ctx, grad):
    needed = ctx.needs_input_grad[:2]
    found = gradient(grad, *ctx.saved_tensors, *ctx.options, list(needed))

    return *(each if is_needed else None for each, is_needed in zip(found, needed)), None, None, None


def allocate_gradient(grad, input, target, labels, ignore_index, beta, needed):
    if not (grad.dtype is wide(input) and same_shape(grad.shape, input.shape[:-1])):
        raise RuntimeError(
            f"ninetoothed::jsd_backward expects a grad like the losses of {list(input.shape)} {input.dtype}, "
            f"but got {list(grad.shape)} {grad.dtype}"
        )

    return empty_where(needed, input, target)


def launch_gradient(outputs, grad, input, target, labels, ignore_index, beta, needed):
    found = [output if is_needed else input for output, is_needed in zip(outputs, needed)]
    (input, target, *found), slopes = _rows(input, target, *found), grad.reshape(-1)
    kernel = gradient_kernels.make(chunk_of(input.shape[-1]))
    given = slopes, input, target, *_of_rows(labels, slopes), ignore_index, beta
    kernel(*given, *found, *_flags(labels, beta), *needed)


def setup_context_gradient(ctx, inputs, output):
    *tensors, ignore_index, beta, ctx.needed = inputs
    ctx.options = ignore_index, beta
    ctx.save_for_backward(*tensors)


def backward_gradient(ctx, *grads):
    grad, *tensors = ctx.saved_tensors
    of_grad, of_input, of_target, _ = second_gradients(_written_out, tensors, ctx.options, grad, grads, ctx.needed)

    return of_grad, of_input, of_target, None, None, None, None


def _written_out(input, target, labels, ignore_index, beta) -> torch.Tensor:
    log_q, log_p = input.to(wide(input)), target.to(wide(target))
    if beta == 0:
        losses = log_p.exp() * (log_p - log_q)
    elif beta == 1:
        losses = log_q.exp() * (log_q - log_p)
    else:
        part_q, part_p = (1 - beta) * log_q.exp(), beta * log_p.exp()
        log_m = (part_q + part_p).log()
        losses = part_p * (log_p - log_m) + part_q * (log_q - log_m)

    return losses.sum(-1) if labels is None else torch.where(labels == ignore_index, 0, losses.sum(-1))


operator = of_file(
    "jsd(Tensor input, Tensor target, Tensor? labels=None, SymInt ignore_index=-100, float beta=0.5) -> Tensor",
    globals(),
)
gradient = of_file(
    "jsd_backward(Tensor grad, Tensor input, Tensor target, Tensor? labels, SymInt ignore_index, float beta, "
    "bool[2] needed) -> (Tensor, Tensor)",
    globals(),
    "_gradient",
)


@readers.by_annotations()
def jsd(
    input: torch.Tensor,
    target: torch.Tensor,
    labels: torch.Tensor | None = None,
    *,
    beta: float = 0.5,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> torch.Tensor:
    """`beta * KL(P || M) + (1 - beta) * KL(Q || M)`, with `M = beta * P + (1 - beta) * Q`, of each row, reduced.

    input: logarithms of Q, of the shape (..., classes), as of a student; target: those of P, as of a teacher. A `beta`
    of 0 gives KL(P || Q), and one of 1 KL(Q || P).
    labels: (...); rows whose label is `ignore_index` have a loss of 0, and are not counted in the mean over rows.
    The loss of halves is of float32.
    """
    given = {"input": input, "target": target, "labels": labels, "beta": beta, "ignore_index": ignore_index}
    input, target, labels, beta, ignore_index, reduction = readers.read("jsd", None, **given, reduction=reduction)
    if reduction not in REDUCTIONS:
        raise ArgumentError(f"ninetoothed::jsd takes a reduction of {', '.join(REDUCTIONS)}, but got {reduction!r}")
    losses = operator(input, target, labels, ignore_index, beta)
    if reduction == "none":
        return losses
    if reduction == "sum" or labels is None:
        return losses.sum() if reduction == "sum" else losses.mean()

    return losses.sum() / (labels != ignore_index).sum()

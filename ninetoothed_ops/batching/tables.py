"""Rules of tables: those of all calls are one, in which each call has rows of its own."""

import torch

from .batch import Batch


def embedding(batch: Batch, weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    if not batch.has(0) and not scale_grad_by_freq:
        return batch.operator(weight, indices, padding_idx, scale_grad_by_freq, sparse)
    indices = batch.whole(1, indices)
    places = _places(indices, weight.shape[-2])
    output = batch.operator(batch.folded(0, weight), places, -1, scale_grad_by_freq, sparse)
    if padding_idx < 0:
        return output
    return torch.where((indices == padding_idx)[..., None], output.detach(), output)


def embedding_gradient(batch: Batch, grad, indices, rows, padding_idx, scale_grad_by_freq):
    grad, indices = batch.wholes(grad, indices)
    if padding_idx >= 0:
        grad = grad.masked_fill((indices == padding_idx)[..., None], 0)
    found = batch.operator(grad, _places(indices, rows), rows * batch.size, -1, scale_grad_by_freq)
    return batch.parted(found)


def _places(indices: torch.Tensor, rows: int) -> torch.Tensor:
    """Number the rows of all calls; a number that a call's own rows do not have stays one that none has."""
    starts = torch.arange(indices.shape[0], device=indices.device).view(-1, *(1,) * (indices.ndim - 1)) * rows
    is_there = (indices >= 0) & (indices < rows)
    return torch.where(is_there, indices + starts, rows * indices.shape[0])

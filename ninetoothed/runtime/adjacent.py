"""Tensors that lie one behind another in memory, as one tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ninetoothed.runtime import private

_PLAIN_TENSORS = frozenset({torch.Tensor, torch.nn.Parameter})


def concatenated(tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """View contiguous tensors of one width that lie one behind another in memory as `torch.cat(tensors)`, else None.

    Their addresses tell it, in each call, so that tensors that have moved since are seen. What is returned keeps the
    memory that it views.
    """
    if not tensors or any(type(tensor) not in _PLAIN_TENSORS or not tensor.ndim for tensor in tensors):
        return None
    first, rows, start, end = tensors[0], 0, 0, 0
    # Another thread may give a tensor other memory meanwhile: what is looked at is held first.
    storages = [tensor.untyped_storage() for tensor in tensors]
    for tensor, storage in zip(tensors, storages):
        address = storage.data_ptr() + int(tensor.storage_offset()) * tensor.itemsize
        if not end:
            start = end = address
        is_alike = tensor.dtype is first.dtype and tensor.device == first.device and tensor.shape[1:] == first.shape[1:]
        if not address or address != end or not (is_alike and tensor.is_contiguous()):
            return None
        rows, end = rows + tensor.shape[0], end + tensor.nbytes
    whole = private.tensor_at(start, (rows, *first.shape[1:]), first)
    if whole is not None:
        whole.keeps = storages  # type: ignore[attr-defined]  # of this tensor's own
    return whole

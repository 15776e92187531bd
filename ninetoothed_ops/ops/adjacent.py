"""Tensors that lie one behind another in memory, as one tensor."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import torch

from ninetoothed.runtime import private
from ninetoothed.runtime.launch_plan import RECORDER


def are_adjacent(tensors: Sequence[torch.Tensor]) -> bool:
    """Tell whether the memory of each tensor begins where that of the one before it ends, if it is contiguous."""
    end = None
    for tensor in tensors:
        address = tensor.data_ptr()
        if end not in (None, address):
            return False
        end = address + tensor.nbytes
    return True


def concatenated(tensors: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """View plain tensors that lie one behind another as `torch.cat(tensors)`, and None where no view is that.

    The view keeps nothing: it is for a launch, while something holds the tensors. A launch plan finds it by the address
    of the first; whether the others follow is to be among the arguments of what is replayed.
    """
    first = tensors[0]
    is_alike = all(
        each.is_contiguous()
        and (each.dtype, each.device, each.shape[1:]) == (first.dtype, first.device, first.shape[1:])
        for each in tensors
    )
    if not (first.ndim and is_alike and first.data_ptr() and are_adjacent(tensors)):
        return None
    recorder = RECORDER.get()
    with contextlib.nullcontext() if recorder is None else recorder.paused():
        rows = sum(each.shape[0] for each in tensors)
        whole = private.tensor_at(first.data_ptr(), (rows, *first.shape[1:]), first)
    if recorder is not None and whole is not None:
        recorder.placed(whole, first)
    return whole

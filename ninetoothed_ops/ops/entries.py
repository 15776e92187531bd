"""The entries of packed rows, in PyTorch's operations: for what no kernel computes."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Places(NamedTuple):
    """For each row its entry, its position there, and whether it is in one: rows between entries are in none."""

    entry: torch.Tensor
    position: torch.Tensor
    is_inside: torch.Tensor


def places_of(offsets: torch.Tensor, lengths: torch.Tensor | None, count: int) -> Places:
    """Find the places of `count` rows; those of rows in no entry are those of some entry's first."""
    starts = offsets[:-1].contiguous()
    lengths = offsets.diff() if lengths is None else lengths
    rows = torch.arange(count, device=offsets.device)
    entry = torch.searchsorted(starts, rows.to(starts.dtype), right=True).sub(1).clamp(min=0)
    position = rows - starts[entry]
    is_inside = (position >= 0) & (position < lengths[entry])

    return Places(entry, torch.where(is_inside, position, 0), is_inside)

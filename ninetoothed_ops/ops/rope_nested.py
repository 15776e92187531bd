"""Rotary positions of nested tensors (batch, jagged, heads, D): each entry begins at position 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ninetoothed.errors import ArgumentError
from ninetoothed.runtime import private
from ninetoothed.runtime.jagged import JaggedParts

from .entries import places_of


def by_rows(operator: Callable, input: Any, sin: Any, cos: Any, *options: Any) -> torch.Tensor:
    """Rotate the values as one sequence, with the rows of the tables that are those of their positions."""
    if not private.is_jagged(input):
        raise ArgumentError("ninetoothed::rope is given nested tables beside a dense input; give it their values")
    parts = JaggedParts.of(input)
    if parts.values.ndim != 3 or parts.dim != 1:
        raise ArgumentError(
            f"ninetoothed::rope takes a nested tensor of (batch, jagged, heads, D), but got one of {input.dim()} "
            f"dimensions of which {parts.dim} is jagged; transpose it"
        )
    tables = (_rows_of(each, parts) for each in (sin, cos))
    output = operator(parts.values.unsqueeze(0), *tables, *options)

    return parts.nest(output.squeeze(0))


def _rows_of(table: Any, parts: JaggedParts) -> torch.Tensor:
    """Return the row of a table for each row of the values."""
    if private.is_jagged(table):
        own = JaggedParts.of(table)
        if own.values.ndim != 2 or own.dim != 1 or not own.shares_entries(parts):
            raise ArgumentError(
                "ninetoothed::rope is given nested tables whose entries are not those of the input; make them of its "
                "offsets, (batch, jagged, D / 2)"
            )
        return own.values
    if parts.lengths is not None and torch.is_grad_enabled() and table.requires_grad:
        raise ArgumentError(
            "ninetoothed::rope gives dense tables no gradient of a nested tensor with holes, which would have a part "
            "in it; detach the tables, or give nested ones"
        )
    longest = None if parts.is_traced else private.known_longest(parts.nested)
    if longest is not None and longest > table.shape[-2]:
        raise ArgumentError(
            f"ninetoothed::rope is given tables of {table.shape[-2]} positions, and an entry of {longest}; make them "
            "for the longest entry"
        )
    entry, position, _ = places_of(parts.offsets, parts.lengths, parts.values.shape[0])
    return table[entry, position] if table.ndim == 3 and table.shape[0] != 1 else table.flatten(0, -2)[position]

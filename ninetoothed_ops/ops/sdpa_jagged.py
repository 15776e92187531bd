"""Attention within the entries of nested tensors of layout `torch.jagged`, with gradients; `sdpa` calls it for them.

The kernels are those of `sdpa_with_lse` and `sdpa_backward`, made for jagged tensors (batch, heads, jagged, D). Values
are (heads, all rows, D); keys and values have offsets of their own, and heads that are as many as the queries', or
divide them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from ninetoothed.errors import ArgumentError
from ninetoothed.runtime.jagged import JaggedParts, is_jagged
from ninetoothed.runtime.private import hidden_from_dynamo

from ..kernels import sdpa_backward_delta, sdpa_backward_key_value, sdpa_backward_query, sdpa_with_lse as kernels
from ..kernels.attention import NO_MASK
from . import sdpa_with_lse
from .checks import FLOATS

# The dimension of (batch, heads, rows, D) that is jagged.
ROWS = 2


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries that values are cut into: where each begins, how many rows it has, and how many the longest has."""

    offsets: torch.Tensor
    lengths: torch.Tensor | None
    longest: int

    @classmethod
    def of(cls, nested: Any) -> Entries:
        """Return the entries of a nested tensor; the longest is read where PyTorch does not know it."""
        parts = JaggedParts.of(nested)
        longest = parts.find_longest()
        if longest is None:
            raise ArgumentError(
                "ninetoothed::sdpa is given a nested tensor of which the longest entry is not known, and a CUDA graph "
                "is being captured; call it once before, or give `max_seqlen` to "
                "`torch.nested.nested_tensor_from_jagged`"
            )
        return cls(parts.offsets, parts.lengths, longest)

    def cut(self, *values: torch.Tensor) -> tuple[JaggedParts, ...]:
        """Return values as kernels take them."""
        return tuple(JaggedParts(each, self.offsets, self.lengths, ROWS, longest=self.longest) for each in values)

    def empty_like(self, values: torch.Tensor) -> torch.Tensor:
        """Allocate values; between entries they are 0, for those who compute on all of them."""
        return torch.empty_like(values) if self.lengths is None else torch.zeros_like(values)


def is_offered(query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: Any, enable_gqa: bool) -> bool:
    """Tell whether the kernels compute attention of these arguments; PyTorch's functions take the others."""
    if torch.compiler.is_compiling() or not all(map(is_jagged, (query, key, value))):
        return False
    if attn_mask is not None or dropout_p != 0 or torch.is_autocast_enabled(query.device.type):
        return False
    parts = [JaggedParts.of(each) for each in (query, key, value)]
    first, other, last = (each.values for each in parts)
    kind = first.dtype, first.device
    alike = all((each.values.dtype, each.values.device) == kind for each in parts)
    if not alike or any(each.values.ndim != 3 or each.dim != ROWS for each in parts):
        return False
    if first.dtype not in FLOATS or not parts[1].shares_entries(parts[2]):
        return False
    if other.shape[:2] != last.shape[:2] or other.shape[2] != first.shape[2] or 0 in (*first.shape, *other.shape):
        return False
    heads, groups = first.shape[0], other.shape[0]
    is_batch = parts[0].offsets.shape == parts[1].offsets.shape
    return is_batch and (heads == groups or (enable_gqa and heads % groups == 0))


@hidden_from_dynamo
def attend(query: Any, key: Any, value: Any, is_causal: bool, scale: float | None) -> torch.Tensor:
    """Return `softmax(query @ key^T * scale) @ value` of each entry, nested as `query` is."""
    rows, columns = Entries.of(query), Entries.of(key)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    values = [each.values() for each in (query, key, value)]
    if scale < sdpa_with_lse.LOWEST_SCALE:
        values[0], scale = sdpa_with_lse.scaled_above(values[0], scale)
    output = _Attention.apply(*values, rows, columns, is_causal, scale)

    return torch.nested.nested_tensor_from_jagged(
        output, rows.offsets, rows.lengths, jagged_dim=ROWS, max_seqlen=rows.longest
    )


class _Attention(torch.autograd.Function):
    """Attention of values, with a gradient that is not differentiable itself."""

    @staticmethod
    def forward(ctx, query, key, value, rows, columns, is_causal, scale):
        output = sdpa_with_lse.empty_output(query, (*query.shape[:-1], value.shape[-1]))
        dtype = torch.float64 if query.dtype is torch.float64 else torch.float32
        lse = rows.empty_like(query.new_empty((*query.shape[:-1], 1), dtype=dtype))
        if rows.lengths is not None:
            output.zero_()
        cut, kept, sums = rows.cut(query, output, lse)
        shared = (0, scale, 0.0, kept, sums, sums, NO_MASK, is_causal, False, False, False)
        kernels.make(jagged_dim=ROWS)(cut, *columns.cut(key, value), *_not_read(query, rows, columns), *shared)
        ctx.save_for_backward(query, key, value, output, lse)
        ctx.options = rows, columns, is_causal, scale

        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        query, key, value, output, lse = ctx.saved_tensors
        rows, columns, is_causal, scale = ctx.options
        query_grad, delta = rows.empty_like(query), torch.empty_like(lse)
        key_grad, value_grad = columns.empty_like(key), columns.empty_like(value)
        by_row = rows.cut(query, grad, output, lse, delta, query_grad)
        sdpa_backward_delta.make(ROWS)(by_row[1], by_row[2], by_row[4])
        by_column = columns.cut(key, value, key_grad, value_grad)
        unread = _not_read(query, rows, columns)
        given = (by_row[0], *by_column[:2], *unread, 0, scale, 0.0, by_row[1], by_row[3], by_row[3], by_row[4])
        options = NO_MASK, is_causal, False, False
        sdpa_backward_query.make(jagged_dim=ROWS)(*given, by_row[5], *options)
        sdpa_backward_key_value.make(jagged_dim=ROWS)(*given, *by_column[2:], *options)

        return query_grad, key_grad, value_grad, None, None, None, None


def _not_read(query: torch.Tensor, rows: Entries, columns: Entries) -> tuple[torch.Tensor, torch.Tensor]:
    """Make what kernels take in the place of a mask, and of lengths."""
    batch = rows.offsets.shape[0] - 1

    return query.new_empty(1).expand(batch, query.shape[0], rows.longest, columns.longest), query.new_empty(batch)

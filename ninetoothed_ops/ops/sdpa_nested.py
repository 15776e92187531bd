"""Attention of nested tensors of layout `torch.jagged`, taken apart for `sdpa_jagged`, and nested again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

from ninetoothed.errors import UnsupportedError
from ninetoothed.runtime import private
from ninetoothed.runtime.jagged import JaggedParts

from ..nested import longest_of
from . import sdpa_jagged, sdpa_with_lse
from .checks import FLOATS
from .sdpa_jagged import ROWS


def sdpa(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    lengths: Any = None,
    sinks: Any = None,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    safe: bool = True,
    softcap: float | None = None,
    window_size: tuple[int, int] | None = None,
) -> torch.Tensor:
    """Compute `softmax(query @ key^T * scale) @ value` of each entry, nested as `query` is.

    PyTorch's function computes what the kernels do not: masks, dropout, other ranks. It has no window.
    """
    if not (lengths is sinks is softcap is None):
        raise UnsupportedError(
            "ninetoothed::sdpa takes no lengths, sinks or softcap beside nested tensors, which have lengths of their "
            "own"
        )
    if attn_mask is None and dropout_p == 0.0 and all(map(private.is_jagged, (query, key, value))):
        with torch.no_grad():
            parts = [JaggedParts.of(each) for each in (query, key, value)]
        if _are_offered(parts, enable_gqa):
            scale = parts[0].values.shape[-1] ** -0.5 if scale is None else scale
            return _computed(query, key, value, _Options(is_causal, scale, *(window_size or ())), parts[0].is_traced)
    if window_size is not None:
        raise UnsupportedError(
            "ninetoothed::sdpa takes a window_size where its kernels compute all: nested tensors (batch, heads, "
            "jagged, D) of one type, keys and values of the same offsets, and neither a mask nor dropout"
        )
    return functional.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def _are_offered(parts: list[JaggedParts], enable_gqa: bool) -> bool:
    """Tell whether the kernels compute attention of these parts."""
    query, key, value = (each.values for each in parts)
    rows, columns, others = parts
    if any(each.values.ndim != 3 or each.dim != ROWS for each in parts) or not columns.shares_entries(others):
        return False
    if any(each.dtype not in FLOATS or each.device != query.device for each in (query, key, value)):
        return False
    if not query.dtype == key.dtype == value.dtype and not torch.is_autocast_enabled(query.device.type):
        return False
    sizes = query.shape[0], query.shape[2], key.shape[0], key.shape[2], value.shape[2]
    if key.shape[:2] != value.shape[:2] or key.shape[2] != query.shape[2] or 0 in sizes:
        return False
    if not rows.is_traced and 0 in (query.shape[1], key.shape[1]):
        return False
    heads, groups = query.shape[0], key.shape[0]
    is_batch = rows.offsets.shape == columns.offsets.shape
    return is_batch and (heads == groups or (enable_gqa and heads % groups == 0))


@dataclass(frozen=True)
class _Options:
    """The numbers that attention takes."""

    is_causal: bool
    scale: float
    left: int = -1
    right: int = -1


def _computed(query: Any, key: Any, value: Any, options: _Options, is_traced: bool) -> Any:
    """Compute attention in the way that takes the least time where it is called."""
    if torch.is_grad_enabled() and options.scale >= sdpa_with_lse.LOWEST_SCALE and not is_traced:
        return _Attention.apply(query, key, value, options)
    parts = [JaggedParts.of(each) for each in (query, key, value)]
    return _attend(parts[0], parts[1], parts[2], options)


@dataclass(frozen=True)
class _Entries:
    """The arguments of `sdpa_jagged` and of its gradient beside values."""

    entries: tuple[torch.Tensor | None, ...]
    longest: tuple[int, int]

    @classmethod
    def of(cls, query: JaggedParts, key: JaggedParts) -> _Entries:
        longest = longest_of("sdpa", query)
        is_self = query.shares_entries(key)
        others = (None, None) if is_self else (key.offsets, key.lengths)
        return cls((query.offsets, query.lengths, *others), (longest, longest if is_self else longest_of("sdpa", key)))


def _attend(query: JaggedParts, key: JaggedParts, value: JaggedParts, options: _Options) -> Any:
    """Compute by operators alone, which autograd records, and which graphs are traced of."""
    given, rows, scale = _Entries.of(query, key), query.values, options.scale
    if scale < sdpa_with_lse.LOWEST_SCALE:
        rows, scale = sdpa_with_lse.scaled_above(rows, scale)
    numbers = *given.longest, options.is_causal, scale, options.left, options.right
    output, _ = sdpa_jagged.operator(rows, key.values, value.values, *given.entries, *numbers)

    return query.nest(output)


class _Attention(torch.autograd.Function):
    """Record attention from nested tensor to nested tensor: views of their values, recorded, take 100 microseconds."""

    @staticmethod
    def forward(ctx, query, key, value, options):
        parts = [JaggedParts.of(each) for each in (query, key, value)]
        given = _Entries.of(parts[0], parts[1])
        ctx.entries, ctx.numbers = given.entries, (*given.longest, options.is_causal, options.scale)
        ctx.parts, ctx.window = [(each.without_values(), each.values.dtype) for each in parts], options
        values = [_cast(each.values) for each in parts]
        output, lse = sdpa_jagged.operator(*values, *ctx.entries, *ctx.numbers, options.left, options.right)
        ctx.save_for_backward(*values, output, lse)

        return parts[0].nest(output)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        *values, output, lse = ctx.saved_tensors
        needed = list(ctx.needs_input_grad[:3])
        kept = private.values_of(grad), output, lse
        last = *ctx.numbers, needed, ctx.window.left, ctx.window.right
        found = sdpa_jagged.gradient(*values, *ctx.entries, *kept, *last)
        parts = zip(ctx.parts, found, needed)
        grads = (part.nest(each.to(dtype)) if is_needed else None for (part, dtype), each, is_needed in parts)

        return *grads, None


def _cast(values: torch.Tensor) -> torch.Tensor:
    """Cast values as autocast does, where it is on, so that these are what the gradient is computed of."""
    device = values.device.type
    if values.dtype is torch.float64 or not torch.is_autocast_enabled(device):
        return values
    return values.to(torch.get_autocast_dtype(device))

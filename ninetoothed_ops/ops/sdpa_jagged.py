"""`sdpa_jagged`: attention within entries of packed rows, and its gradient; `sdpa` calls it for nested tensors.

The kernels are those of `sdpa_with_lse` and `sdpa_backward`, made for jagged tensors (batch, heads, jagged, D). Values
are (heads, all rows, D), entry b the `lengths[b]` rows from `offsets[b]` on, or those up to the next entry without
`lengths`. Keys and values have entries of their own unless `key_offsets` is None, and heads that are as many as the
queries', or divide them. `longest`, `key_longest`: how many rows the longest entry has. `left`, `right`: how many keys
before and after its own place a row sees; -1 for all of them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch

from ninetoothed.errors import ArgumentError
from ninetoothed.runtime.jagged import JaggedParts

from ..autocast import without_autocast
from ..kernels import sdpa_backward_delta, sdpa_backward_key_value, sdpa_backward_query, sdpa_with_lse as kernels
from ..kernels.attention import NO_MASK
from ..registration import of_file
from . import sdpa_with_lse
from .checks import alike, check_product
from .entries import places_of
from .sdpa_backward import gradients_of

# The dimension of (batch, heads, rows, D) that is jagged.
ROWS = 2


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries that values are cut into: where each begins, how many rows it has, and how many the longest has."""

    offsets: torch.Tensor
    lengths: torch.Tensor | None
    longest: int
    family: int = 0

    def cut(self, *values: torch.Tensor) -> tuple[JaggedParts, ...]:
        """Return values as kernels take them."""
        offsets, lengths, longest = self.offsets, self.lengths, self.longest
        return tuple(JaggedParts(each, offsets, lengths, ROWS, longest=longest, family=self.family) for each in values)

    def clear(self, *values: torch.Tensor) -> None:
        """Set what is between entries to 0, for those who compute on all of the values; kernels do not write there."""
        if self.lengths is not None:
            for each in values:
                each.zero_()


def _entries(offsets, lengths, key_offsets, key_lengths, longest, key_longest) -> tuple[Entries, Entries]:
    """Return the entries of queries, and of keys: whether they share them is told by None alone, as replays need."""
    rows = Entries(offsets, lengths, longest)
    return rows, rows if key_offsets is None else Entries(key_offsets, key_lengths, key_longest, 1)


def _check(query, key, value, *offsets: torch.Tensor | None) -> None:
    """Raise for what kernels would read out of bounds, or of another type."""
    fits = query.ndim == key.ndim == value.ndim == 3 and alike(query, key, value)
    fits = fits and key.shape[:2] == value.shape[:2] and key.shape[2] == query.shape[2]
    if not fits or not key.shape[0] or query.shape[0] % key.shape[0]:
        shapes = ", ".join(str(tuple(each.shape)) for each in (query, key, value))
        raise ArgumentError(
            "ninetoothed::sdpa_jagged takes (heads, rows, D) of one type and device, the heads of keys and values as "
            f"many as the queries' or a divisor of them, but got {shapes}; call ninetoothed::sdpa with nested tensors"
        )
    sizes = [each.shape[0] + i % 2 for i, each in enumerate(offsets) if each is not None]
    if any(size != sizes[0] for size in sizes):
        raise ArgumentError(
            f"ninetoothed::sdpa_jagged takes offsets of one batch for queries and keys, but got those of "
            f"{sizes[0] - 1} entries and of {sizes[-1] - 1}; give keys as many entries"
        )
    check_product("sdpa_jagged", query)


def allocate(
    query, key, value, offsets, lengths, key_offsets, key_lengths, longest, key_longest, is_causal, scale,
    left=-1, right=-1,
):  # fmt: skip
    _check(query, key, value, offsets, lengths, key_offsets, key_lengths)
    dtype = torch.float64 if query.dtype is torch.float64 else torch.float32
    output = sdpa_with_lse.empty_output(query, (*query.shape[:-1], value.shape[-1]))

    return output, query.new_empty((*query.shape[:-1], 1), dtype=dtype)


def launch(
    outputs, query, key, value, offsets, lengths, key_offsets, key_lengths, longest, key_longest, is_causal, scale,
    left=-1, right=-1,
):  # fmt: skip
    rows, columns = _entries(offsets, lengths, key_offsets, key_lengths, longest, key_longest)
    rows.clear(*outputs)
    cut, kept, sums = rows.cut(query, *outputs)
    is_causal, window = _window(is_causal, left, right, longest, key_longest)
    shared = (0, scale, 0.0, kept, sums, sums, NO_MASK, is_causal, False, False, False, *window)
    kernel = kernels.make(jagged_dim=ROWS, is_windowed=bool(window))
    kernel(cut, *columns.cut(key, value), *_not_read(query, rows, columns), *shared)


def _window(is_causal: bool, left: int, right: int, longest: int, key_longest: int) -> tuple[bool, tuple[int, ...]]:
    """Return whether kernels compare with the diagonal, and what they take for a window, of which that is a bound."""
    if left < 0 and right < 0:
        return is_causal, ()
    left = longest if left < 0 else min(left, longest)
    right = 0 if is_causal else key_longest if right < 0 else min(right, key_longest)
    return False, (left, right)


def setup_context(ctx, inputs, output):
    *tensors, ctx.longest, ctx.key_longest, ctx.is_causal, ctx.scale, ctx.left, ctx.right = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*tensors, *output)


def backward(ctx, grad, _):
    *tensors, output, lse = ctx.saved_tensors
    needed = ctx.needs_input_grad[:3]
    options = ctx.longest, ctx.key_longest, ctx.is_causal, ctx.scale, list(needed), ctx.left, ctx.right
    found = gradient(*tensors, grad, output.detach(), lse, *options)

    return *(each if is_needed else None for each, is_needed in zip(found, needed)), *(None,) * 10


def allocate_gradient(
    query, key, value, offsets, lengths, key_offsets, key_lengths, grad, output, lse,
    longest, key_longest, is_causal, scale, needed, left=-1, right=-1,
):  # fmt: skip
    of_keys, of_values = (any(each) for each in zip((False, False), *gradients_of(query, value, needed[1:])))
    pairs = (query, needed[0]), (key, of_keys), (value, of_values)

    # What is not needed is one element of no meaning (calls that give empty tensors are not replayed).
    return tuple(torch.empty_like(each) if is_needed else each.new_empty(1) for each, is_needed in pairs)


def launch_gradient(
    grads, query, key, value, offsets, lengths, key_offsets, key_lengths, grad, output, lse,
    longest, key_longest, is_causal, scale, needed, left=-1, right=-1,
):  # fmt: skip
    rows, columns = _entries(offsets, lengths, key_offsets, key_lengths, longest, key_longest)
    delta = torch.empty_like(lse)
    by_row = rows.cut(query, grad, output, lse, delta, grads[0])
    # Row by row, wherever entries end: what lies between them is not read again.
    sdpa_backward_delta.make()(*(each.unsqueeze(0) for each in (grad, output, delta)))
    by_column = columns.cut(key, value)
    is_causal, window = _window(is_causal, left, right, longest, key_longest)
    made = {"jagged_dim": ROWS, "is_windowed": bool(window)}
    shared, options = (0, scale, 0.0, by_row[1], by_row[3], by_row[3], by_row[4]), (NO_MASK, is_causal, False, False)
    options = *options, *window

    def given(by_columns: bool) -> tuple:
        return by_row[0], *by_column, *_not_read(query, rows, columns, by_columns), *shared

    if needed[0]:
        rows.clear(grads[0])
        sdpa_backward_query.make(**made)(*given(False), by_row[5], *options)
    for half in gradients_of(query, value, needed[1:]):
        found = tuple(itertools.compress(grads[1:], half))
        columns.clear(*found)
        kernel = sdpa_backward_key_value.make(**made, of_keys=half[0], of_values=half[1])
        kernel(*given(True), *columns.cut(*found), *options)


def setup_context_gradient(ctx, inputs, output):
    *tensors, _, _, _, _, ctx.is_causal, ctx.scale, ctx.needed, ctx.left, ctx.right = inputs
    ctx.save_for_backward(*tensors)
    ctx.set_materialize_grads(False)


def backward_gradient(ctx, *grads):
    """Differentiate attention in PyTorch's operations, with a score for each row and each column of all entries."""
    query, key, value, offsets, lengths, key_offsets, key_lengths, grad = ctx.saved_tensors
    grads = tuple(each if is_needed else None for each, is_needed in zip(grads, ctx.needed))
    rows = places_of(offsets, lengths, query.shape[1])
    columns = places_of(*((offsets, lengths) if key_offsets is None else (key_offsets, key_lengths)), key.shape[1])
    seen = (rows.entry[:, None] == columns.entry) & rows.is_inside[:, None] & columns.is_inside
    seen = seen & (rows.position[:, None] >= columns.position) if ctx.is_causal else seen
    if ctx.left >= 0:
        seen = seen & (rows.position[:, None] - columns.position <= ctx.left)
    if ctx.right >= 0:
        seen = seen & (columns.position - rows.position[:, None] <= ctx.right)
    group = query.shape[0] // key.shape[0]

    def attention(query, key, value):
        key, value = (each.repeat_interleave(group, 0) for each in (key, value))
        scores = (query @ key.transpose(1, 2) * ctx.scale).masked_fill(~seen, torch.finfo(query.dtype).min)
        return (scores.softmax(-1) * seen) @ value

    def gradients(query, key, value, grad):
        found = torch.func.vjp(attention, query, key, value)[1](grad)
        return tuple(each for each, given in zip(found, grads) if given is not None)

    given = tuple(each for each in grads if each is not None)
    if not given:
        return (None,) * 17
    with without_autocast(grad.device.type):
        to_query, to_key, to_value, to_grad = torch.func.vjp(gradients, query, key, value, grad)[1](given)

    return to_query, to_key, to_value, *(None,) * 4, to_grad, *(None,) * 9


def _not_read(
    query: torch.Tensor, rows: Entries, columns: Entries, by_columns: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Make what kernels take in the place of a mask, and of lengths: see `sdpa_backward.inputs`."""
    batch = rows.offsets.shape[0] - 1
    scores = (1, columns.longest) if by_columns else (rows.longest, 1)

    return query.new_empty(1).expand(batch, query.shape[0], *scores), query.new_empty(batch)


_TENSORS = (
    "Tensor query, Tensor key, Tensor value, Tensor offsets, Tensor? lengths, Tensor? key_offsets, Tensor? key_lengths"
)
_WINDOW = "SymInt left=-1, SymInt right=-1"
_OPTIONS = "SymInt longest, SymInt key_longest, bool is_causal, float scale"
operator = of_file(
    f"sdpa_jagged({_TENSORS}, {_OPTIONS}, {_WINDOW}) -> (Tensor, Tensor)", globals(), autocast=torch.get_autocast_dtype
)
gradient = of_file(
    f"sdpa_jagged_backward({_TENSORS}, Tensor grad, Tensor output, Tensor lse, {_OPTIONS}, bool[3] needed, {_WINDOW}) "
    "-> (Tensor, Tensor, Tensor)",
    globals(),
    "_gradient",
)

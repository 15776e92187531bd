"""Read subscripts of symbolic tensors: for each dimension the start, the step, and the number of elements.

x[1]        start 1, step 0 (the dimension goes)
x[2:8:2]    start 2, step 2, 3 elements
x[-1]       start x_size_0 - 1, step 0
"""

from __future__ import annotations

from typing import Any

from ninetoothed.arrangement import Size
from ninetoothed.errors import ArrangementError
from ninetoothed.operands import MetaOperation, is_below, never_negative
from ninetoothed.symbol import Symbol, as_size, largest, smallest
from ninetoothed.wording import brief, counted


def full_key(call: MetaOperation, key: Any) -> list[Any]:
    """List one item a dimension, and None for each new one: `...` and missing items become whole slices."""
    items = list(key) if isinstance(key, tuple) else [key]
    rank = len(call.shape)
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    given = sum(item is not None and item is not Ellipsis for item in items)
    if len(dots) > 1:
        raise call.error("`...` stands in it more than once", "write it once")
    if given > rank:
        what = f"{counted(given, 'index', 'indices')} for {counted(rank, 'dimension')}"
        raise call.error(what, "give at most one a dimension")
    at = dots[0] if dots else len(items)
    return [*items[:at], *[slice(None)] * (rank - given), *items[at + 1 :]]


def position(call: MetaOperation, item: Any, dim: int, sizes: frozenset[str]) -> Size:
    """Read one index along a dimension, counted from its start. `sizes` are names that are never negative."""
    size = call.shape[dim]
    try:
        at = as_size(item)
    except (TypeError, ArrangementError):
        what = f"dimension {dim} is indexed by {brief(item)}"
        raise call.error(what, "use ints, symbols, slices, None and `...`") from None
    if isinstance(at, int) and isinstance(size, int) and not -size <= at < size:
        remedy = f"use {-size} to {size - 1}" if size else "it is empty"
        raise call.error(f"index {at} is out of range for dimension {dim} of size {size}", remedy)
    return _wrapped(at, size, sizes)


def span(call: MetaOperation, item: slice, dim: int, sizes: frozenset[str]) -> tuple[Size, Size, int]:
    """Read a slice: `(start, length, step)`, cut off at the ends as in NumPy; symbolic where the size or a bound is."""
    size = call.shape[dim]
    start, stop, step = _bounds(call, item, dim)
    if isinstance(size, int) and not isinstance(start, Symbol) and not isinstance(stop, Symbol):
        chosen = range(*slice(start, stop, step).indices(size))
        return chosen.start, len(chosen), step
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def clamp(bound: Size | None, default: Size) -> Size:
        if bound is None:
            return default
        wrapped = _wrapped(bound, size, sizes)
        if is_below(bound, 0):
            return largest(wrapped, low)
        inside = wrapped if wrapped is bound else largest(wrapped, low)
        return inside if inside == low else smallest(inside, high)

    if step > 0:
        first, last = clamp(start, low), clamp(stop, high)
        length = last - first if step == 1 else (last - first + (step - 1)) // step
    else:
        first, last = clamp(start, high), clamp(stop, low)
        length = (first - last + (-step - 1)) // -step
    if isinstance(length, int):
        return first, max(length, 0), step
    return first, length if never_negative(length, sizes) else largest(length, 0), step


def _bounds(call: MetaOperation, item: slice, dim: int) -> tuple[Size | None, Size | None, int]:
    try:
        start, stop = (None if bound is None else as_size(bound) for bound in (item.start, item.stop))
        step = 1 if item.step is None else as_size(item.step)
    except (TypeError, ArrangementError):
        raise call.error(f"dimension {dim} is sliced by {item}", "the bounds of a slice are ints or symbols") from None
    if not isinstance(step, int) or step == 0:
        raise call.error(f"dimension {dim} is sliced with step {step}", "a step is an int other than 0")
    return start, stop, step


def _wrapped(index: Size, size: Size, sizes: frozenset[str]) -> Size:
    """Count a negative index from the end; `index + size * (index < 0)` where its sign is not known."""
    if isinstance(index, int):
        return size - -index if index < 0 else index
    if never_negative(index, sizes):
        return index
    return index + size * smallest(largest(-index, 0), 1)

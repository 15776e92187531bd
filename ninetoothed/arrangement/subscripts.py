"""Read subscripts of symbolic tensors: for each dimension the start, the step, and the number of elements.

x[1]        start 1, step 0 (the dimension goes)
x[2:8:2]    start 2, step 2, 3 elements
x[-1]       start x_size_0 - 1, step 0
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ninetoothed.arrangement.operands import MetaOperation, never_negative
from ninetoothed.arrangement.sizes import as_size, largest, smallest
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.value import Size
from ninetoothed.errors import ArrangementError
from ninetoothed.expr import Facts, as_expr, is_nonnegative
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
    begin, end = (_placed(bound, size, sizes) for bound in (start, stop))
    if step > 0:
        low, high = (begin or _Place(0)).clamped(size), end or _Place(0, True)
        first = low.at_least_0(size, sizes)
    else:
        # The same elements, the last first: those behind `stop`, up to `start` and with it.
        low, high = end.next.clamped(size) if end else _Place(0), begin.next if begin else _Place(0, True)
        first = begin.before(size) if begin else size - 1
    length = _between(low, high, size, sizes)
    if abs(step) > 1:
        length = (length + (abs(step) - 1)) // abs(step)
    return first, length, step


@dataclass(frozen=True)
class _Place:
    """A bound of a slice: so far from the start of a dimension, or before its end."""

    offset: Size
    is_from_end: bool = False

    @property
    def next(self) -> _Place:
        """The place one further."""
        return replace(self, offset=self.offset - 1 if self.is_from_end else self.offset + 1)

    def clamped(self, size: Size) -> _Place:
        """Return the start of the dimension for a place before it: `x[-8:]` of 5 elements begins at 0."""
        reaches = self.is_from_end and is_nonnegative(as_expr(self.offset) - as_expr(size), Facts())
        return _Place(0) if reaches else self

    def at_least_0(self, size: Size, sizes: frozenset[str]) -> Size:
        """Return the place as an index, at least 0. It may be past the end, where the slice is empty."""
        if self.is_from_end:
            return largest(size - self.offset, 0)
        return _not_below_0(self.offset, sizes)

    def before(self, size: Size) -> Size:
        """Return the place as an index of an element. It may be below 0, where the slice is empty."""
        return size - self.offset if self.is_from_end else smallest(self.offset, size - 1)


def _placed(bound: Size | None, size: Size, sizes: frozenset[str]) -> _Place | None:
    """Read a bound."""
    if isinstance(bound, int) and bound < 0:
        return _Place(-bound, True)
    return None if bound is None else _Place(_wrapped(bound, size, sizes))


def _between(low: _Place, high: _Place, size: Size, sizes: frozenset[str]) -> Size:
    """Count the elements between two places: `size` stands in it once, so that long chains of slices stay short."""
    if low.is_from_end and high.is_from_end:
        length = smallest(low.offset, size) - high.offset
    elif high.is_from_end:
        length = size - (low.at_least_0(size, sizes) + high.offset)
    else:
        length = smallest(high.offset, size) - low.at_least_0(size, sizes)
    return _not_below_0(length, sizes)


def _not_below_0(size: Size, sizes: frozenset[str]) -> Size:
    return size if isinstance(size, Symbol) and never_negative(size, sizes) else largest(size, 0)


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

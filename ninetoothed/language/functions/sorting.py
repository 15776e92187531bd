"""Sorts, the greatest elements, and histograms. Elements past the end of a dimension take part in none of them."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from typing import Literal, overload

from ninetoothed.language.functions.row import row
from ninetoothed.language.types import Tile, TileLike


@overload
def sort(
    x: TileLike, dim: int | None = None, descending: bool = False, return_indices: Literal[False] = False
) -> Tile: ...
@overload
def sort(
    x: TileLike, dim: int | None = None, descending: bool = False, *, return_indices: Literal[True]
) -> tuple[Tile, Tile]: ...
@row
def sort(
    x: TileLike, dim: int | None = None, descending: bool = False, return_indices: bool = False
) -> Tile | tuple[Tile, Tile]:
    """Sort along the last dimension; with `return_indices`, return also the place that each element had, as int32.

    NaN is the greatest, as in PyTorch, and 0.0 greater than -0.0. Shape and type stay, and so does a number. Of equal
    elements the first comes first in either direction; elements past the end come last.
    Raises `ApplicationError` for any other `dim`.

    >>> def application(x, y):
    ...     y = ntl.sort(x, descending=True)
    >>> run(application, torch.tensor([2.0, 3.0, 1.0]), torch.empty(3))
    tensor([3., 2., 1.])
    >>> def places(x, y):
    ...     values, y = ntl.sort(x, return_indices=True)
    >>> run(places, torch.tensor([2.0, 3.0, 1.0]), torch.empty(3, dtype=torch.int32))
    tensor([2, 0, 1], dtype=torch.int32)
    """


@row
def bitonic_merge(x: TileLike, dim: int | None = None, descending: bool = False) -> Tile:
    """Sort along the last dimension what rises and then falls there. It is `sort`, which needs no such order.

    >>> def application(x, y):
    ...     y = ntl.bitonic_merge(x)
    >>> run(application, torch.tensor([1.0, 4.0, 3.0, 2.0]), torch.empty(4))
    tensor([1., 2., 3., 4.])
    """


@overload
def topk(x: TileLike, k: int, dim: int | None = None, return_indices: Literal[False] = False) -> Tile: ...
@overload
def topk(x: TileLike, k: int, dim: int | None = None, *, return_indices: Literal[True]) -> tuple[Tile, Tile]: ...
@row
def topk(x: TileLike, k: int, dim: int | None = None, return_indices: bool = False) -> Tile | tuple[Tile, Tile]:
    """Return the `k` greatest elements along the last dimension, the greatest first; of a number one, itself.

    With `return_indices`, return also their places, as int32: of equal elements, the first. All else is as for `sort`.
    Raises `ApplicationError` for another `dim`, a `k` that is not from 1 to the size, and a size that is not known when
    compiling.

    >>> def application(x, y, places):
    ...     y, places = ntl.topk(x, 2, return_indices=True)
    >>> run(application, torch.tensor([2.0, 3.0, 1.0]), torch.empty(2), torch.empty(2, dtype=torch.int64))
    tensor([1, 0])
    """


@row
def histogram(input: TileLike, num_bins: int) -> Tile:
    """Count how often each of 0 to `num_bins - 1` is among the integers of a tile of one dimension, as int32.

    Integers outside that range are not counted.

    Raises `ApplicationError` for floats, and where `num_bins` is not known when compiling.

    >>> def application(x, y):
    ...     y = ntl.histogram(x, 4)
    >>> run(application, torch.tensor([1, 3, 1, 0], dtype=torch.int32), torch.empty(4, dtype=torch.int32))
    tensor([1, 2, 0, 1], dtype=torch.int32)
    """

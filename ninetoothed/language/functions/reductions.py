"""Reductions, scans and matrix products. Elements past the end of a dimension take part in none of them."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

from ninetoothed.dtypes import float32
from ninetoothed.language.functions.row import row
from ninetoothed.language.types import DTypeLike, Tile, TileLike


@row
def sum(input: TileLike, axis: int | None = None, keep_dims: bool = False, dtype: DTypeLike | None = None) -> Tile:
    """Add up the elements along `axis`, or all of them; with `keep_dims`, dimensions summed stay, of size 1.

    Halves are summed in float32 and keep their type. Integers narrower than 32 bits give int32, all others their own
    type, and wrap: PyTorch sums int32 in int64, as `dtype=ntl.int64` does. With `dtype`, elements are converted to it
    first. Raises `ApplicationError` for an axis that the tile has not.

    >>> def application(x, y):
    ...     y = ntl.sum(x, axis=1)
    >>> run(application, torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), torch.empty(2))
    tensor([ 6., 15.])
    """


@row
def mean(input: TileLike, axis: int | None = None, keep_dims: bool = False) -> Tile:
    """Return the mean of the elements along `axis`, or of all: their sum by how many there are, NaN of none.

    The last tile of a dimension has fewer elements, by which its mean is divided; `ntl.sum(x) / x.shape[0]` is the mean
    of a tile that is a whole row. Halves are computed in float32 and keep their type, integers give float32. Shapes and
    errors are those of `sum`.

    >>> def application(x, y):
    ...     y = x - ntl.mean(x, axis=1, keep_dims=True)
    >>> run(application, torch.tensor([[1.0, 2.0, 6.0], [4.0, 5.0, 6.0]]), torch.empty(2, 3))
    tensor([[-2., -1.,  3.],
            [-1.,  0.,  1.]])
    """


@row
def var(input: TileLike, axis: int | None = None, correction: float = 1, keep_dims: bool = False) -> Tile:
    """Return the variance along `axis`, or of all: the sum of squares of `x - ntl.mean(x)`, divided.

    The divisor is how many elements there are, less `correction`, which must be known when compiling, and never below
    0: as in PyTorch, 0 gives the mean of the squares. Types, shapes and errors are those of `mean`.

    >>> def application(x, y):
    ...     y = (x - ntl.mean(x)) * ntl.rsqrt(ntl.var(x, correction=0) + 1e-5)
    >>> run(application, torch.tensor([1.0, 3.0]), torch.empty(2))
    tensor([-1.0000,  1.0000])
    """


@row
def xor_sum(input: TileLike, axis: int | None = None, keep_dims: bool = False) -> Tile:
    """Join the elements along `axis`, or all of them, by exclusive or. Shapes are those of `sum`.

    Integers narrower than 32 bits give int32. Raises `ApplicationError` for floats, and an axis that the tile has not.

    >>> def application(x, y):
    ...     y = ntl.xor_sum(x)
    >>> run(application, torch.tensor([1, 2, 7]), torch.empty(1, dtype=torch.int64))
    tensor([4])
    """


@row
def reduce_or(input: TileLike, axis: int | None = None, keep_dims: bool = False) -> Tile:
    """Join the elements along `axis`, or all of them, by or: the bits that any has. All else is as for `xor_sum`.

    >>> def application(x, y):
    ...     y = ntl.reduce_or(x)
    >>> run(application, torch.tensor([1, 2, 6]), torch.empty(1, dtype=torch.int64))
    tensor([7])
    """


@overload
def max(
    input: TileLike,
    axis: int | None = None,
    return_indices: Literal[False] = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Tile: ...
@overload
def max(
    input: TileLike,
    axis: int | None = None,
    *,
    return_indices: Literal[True],
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> tuple[Tile, Tile]: ...
@row
def max(
    input: TileLike,
    axis: int | None = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Tile | tuple[Tile, Tile]:
    """Return the greatest element along `axis`, or of all; with `return_indices`, its place, too, as `argmax` gives it.

    With `return_indices`, a NaN comes before any number, in value and place, as in PyTorch. Without, NaN is left out
    unless there is nothing else, as by `maximum`.

    The type is that of the tile; shapes are those of `sum`. `ntl.maximum` compares two tiles.
    Raises `ApplicationError` for an axis that the tile has not.

    >>> def application(x, y):
    ...     y = ntl.exp(x - ntl.max(x))
    >>> run(application, torch.tensor([1.0, 3.0]), torch.empty(2))
    tensor([0.1353, 1.0000])
    """


@overload
def min(
    input: TileLike,
    axis: int | None = None,
    return_indices: Literal[False] = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Tile: ...
@overload
def min(
    input: TileLike,
    axis: int | None = None,
    *,
    return_indices: Literal[True],
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> tuple[Tile, Tile]: ...
@row
def min(
    input: TileLike,
    axis: int | None = None,
    return_indices: bool = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Tile | tuple[Tile, Tile]:
    """Return the least element along `axis`, or of all. NaN, places, shapes, types and errors are those of `max`.

    >>> def application(x, y):
    ...     least, place = ntl.min(x, axis=0, return_indices=True)
    ...     y = least + place
    >>> run(application, torch.tensor([5.0, 3.0]), torch.empty(1))
    tensor([4.])
    """


@row
def argmax(input: TileLike, axis: int | None, tie_break_left: bool = True, keep_dims: bool = False) -> Tile:
    """Return the place of the greatest element along `axis`, or in row-major order where it is None, as int32.

    Of several that are equal it is the first, whatever `tie_break_left` is. NaN comes before any number; of no elements
    it is 0. Shapes are those of `sum`. Raises `ApplicationError` for an axis that the tile has not.

    >>> def application(x, y):
    ...     y = ntl.argmax(x, axis=1)
    >>> run(application, torch.tensor([[1.0, 3.0], [4.0, 2.0]]), torch.empty(2, dtype=torch.int32))
    tensor([1, 0], dtype=torch.int32)
    """


@row
def argmin(input: TileLike, axis: int | None, tie_break_left: bool = True, keep_dims: bool = False) -> Tile:
    """Return the place of the least element along `axis`, or of the first NaN. All else is as for `argmax`.

    >>> def application(x, y):
    ...     y = ntl.argmin(x, axis=1)
    >>> run(application, torch.tensor([[1.0, 3.0], [4.0, 2.0]]), torch.empty(2, dtype=torch.int32))
    tensor([0, 1], dtype=torch.int32)
    """


@row
def reduce(input: Any, axis: int | None, combine_fn: Callable[..., Any], keep_dims: bool = False) -> Any:
    """Join the elements along `axis`, or all of them, by an associative function of two. No identity is needed.

    input: a tile; or a tuple of tiles, for which `combine_fn` takes twice as many numbers and returns a tuple.
    It need not be commutative: elements are joined in their order, row-major where `axis` is None. On a GPU that takes
    a scan, unless exchanging the two sides is seen to give the same expression, as in `a + b` or `ntl.maximum(a, b)`.
    Shapes are those of `sum`. Raises `ApplicationError` for an axis that the tile has not, and where a branch of the
    function stores, prints or asserts: elements that take different branches are combined side by side.

    >>> def multiplied(a, b):
    ...     return a * b
    >>> def application(x, y):
    ...     y = ntl.reduce(x, 0, multiplied)
    >>> run(application, torch.tensor([2.0, 3.0, 4.0]), torch.empty(1))
    tensor([24.])
    """


@row
def associative_scan(input: Any, axis: int, combine_fn: Callable[..., Any], reverse: bool = False) -> Any:
    """Join each element and all before it along `axis` by a function of two; with `reverse`, all behind it.

    Shapes and types stay. `input`, `combine_fn` and errors are those of `reduce`.

    >>> def greater(a, b):
    ...     return ntl.maximum(a, b)
    >>> def application(x, y):
    ...     y = ntl.associative_scan(x, 0, greater)
    >>> run(application, torch.tensor([2.0, 1.0, 4.0, 3.0]), torch.empty(4))
    tensor([2., 2., 4., 4.])
    """


@row
def cumsum(input: TileLike, axis: int = 0, reverse: bool = False) -> Tile:
    """Add up each element and all before it along `axis`; with `reverse`, all behind it. The shape stays.

    Types are those of `sum`. Raises `ApplicationError` for an axis that the tile has not.

    >>> def application(x, y):
    ...     y = ntl.cumsum(x)
    >>> run(application, torch.tensor([1.0, 2.0, 3.0]), torch.empty(3))
    tensor([1., 3., 6.])
    """


@row
def cumprod(input: TileLike, axis: int = 0, reverse: bool = False) -> Tile:
    """Multiply each element and all before it along `axis`. All else is as for `cumsum`.

    >>> def application(x, y):
    ...     y = ntl.cumprod(x)
    >>> run(application, torch.tensor([2.0, 3.0, 4.0]), torch.empty(3))
    tensor([ 2.,  6., 24.])
    """


@row
def dot(
    input: TileLike,
    other: TileLike,
    acc: TileLike | None = None,
    input_precision: str | None = None,
    allow_tf32: bool | None = None,
    max_num_imprecise_acc: int | None = None,
    out_dtype: DTypeLike | None = None,
) -> Tile:
    """Multiply matrices, (M, K) by (K, N), or stacks of them, of any sizes; add `acc` if given. `x @ y` is the same.

    Operands meet in one type. Halves and float32 give float32, float64 itself, int8 int32, or `out_dtype`. For float32,
    `input_precision` is "ieee", "tf32" or "tf32x3", by default what `torch.backends.cuda.matmul.fp32_precision` says.

    Raises `ApplicationError` for tiles that are not of 2 or 3 dimensions each, inner sizes that differ, and integers
    wider than 8 bits.

    >>> def application(x, y, z):
    ...     z = ntl.dot(x, y)
    >>> run(application, torch.ones(2, 3), torch.arange(6.0).view(3, 2), torch.empty(2, 2))
    tensor([[6., 9.],
            [6., 9.]])
    """


@row
def dot_scaled(
    lhs: TileLike,
    lhs_scale: TileLike,
    lhs_format: str,
    rhs: TileLike,
    rhs_scale: TileLike,
    rhs_format: str,
    acc: TileLike | None = None,
    out_dtype: DTypeLike = float32,
) -> Tile:
    """Multiply matrices in microscaling formats, as Triton's `dot_scaled` does.

    Formats are "e2m1", "e4m3", "e5m2", "bf16" and "fp16". Each scale belongs to 32 elements of the inner dimension.
    On a GPU alone: on CPU tensors it is an `UnsupportedError`. Raises `ApplicationError` where a scale is missing.

    >>> def application(x, x_scale, y, y_scale, z):
    ...     z = ntl.dot_scaled(x, x_scale, "e5m2", y, y_scale, "e5m2")
    >>> bits, scales = torch.ones(128, 128, dtype=torch.uint8), torch.ones(128, 4, dtype=torch.uint8)
    >>> arguments = bits, scales, bits, scales, torch.empty(128, 128)
    >>> "tl.dot_scaled" in str(kernel_of(application, *arguments).source(*arguments, gpu="b200"))
    True
    """

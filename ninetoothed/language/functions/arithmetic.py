"""Element-wise functions of two and three tiles, and arithmetic on program numbers."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from ninetoothed.language.functions.row import row
from ninetoothed.language.types import Nan, Tile, TileLike


@row
def add(x: TileLike, y: TileLike, sanitize_overflow: bool = True) -> Tile:
    """Return `x + y`, element by element. Shapes broadcast as in NumPy.

    Two types meet in a float if one is a float, else in an integer if one is an integer, and in the wider of two alike;
    float16 and bfloat16 meet in float32. A Python number takes the type of the tile, if that can hold such numbers.
    `sanitize_overflow` is accepted and ignored: integers wrap. Raises `ApplicationError` where shapes do not broadcast.

    >>> def application(x, y, z):
    ...     z = ntl.add(x, y)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0]), torch.empty(2))
    tensor([11., 22.])
    """


@row
def sub(x: TileLike, y: TileLike, sanitize_overflow: bool = True) -> Tile:
    """Return `x - y`. Shapes, types and errors are those of `add`.

    >>> def application(x, y, z):
    ...     z = ntl.sub(x, y)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0]), torch.empty(2))
    tensor([ -9., -18.])
    """


@row
def mul(x: TileLike, y: TileLike, sanitize_overflow: bool = True) -> Tile:
    """Return `x * y`, element by element. Shapes, types and errors are those of `add`.

    >>> def application(x, y, z):
    ...     z = ntl.mul(x, y)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0]), torch.empty(2))
    tensor([10., 40.])
    """


@row
def pow(x: TileLike, y: TileLike) -> Tile:
    """Return `x ** y`, element by element: of integers an integer, which wraps; of halves that half.

    Integers to a negative power that is known when compiling give float32, and to one that only a call tells their
    fraction is dropped. Shapes and errors are those of `add`.

    >>> def application(x, y):
    ...     y = ntl.pow(x, 3)
    >>> run(application, torch.tensor([1.0, 2.0, -3.0]), torch.empty(3))
    tensor([  1.,   8., -27.])
    """


@row
def fdiv(x: TileLike, y: TileLike, ieee_rounding: bool = False) -> Tile:
    """Return `x / y`: integers and halves give float32. Shapes and errors are those of `add`.

    `ieee_rounding` is accepted and ignored; `div_rn` rounds correctly on every GPU.

    >>> def application(x, y, z):
    ...     z = ntl.fdiv(x, y)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.tensor([4.0, 5.0]), torch.empty(2))
    tensor([0.2500, 0.4000])
    """


@row
def div_rn(x: TileLike, y: TileLike) -> Tile:
    """Return `x / y`, rounded to the nearest number. Shapes and errors are those of `add`, types those of `exp`.

    >>> def application(x, y, z):
    ...     z = ntl.div_rn(x, y)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.tensor([4.0, 5.0]), torch.empty(2))
    tensor([0.2500, 0.4000])
    """


@row
def fma(x: TileLike, y: TileLike, z: TileLike) -> Tile:
    """Return `x * y + z`, rounded once. Shapes and errors are those of `add`, types those of `exp`.

    >>> def application(x, y, z, output):
    ...     output = ntl.fma(x, y, z)
    >>> run(application, torch.tensor([2.0]), torch.tensor([3.0]), torch.tensor([4.0]), torch.empty(1))
    tensor([10.])
    """


@row
def cdiv(x: TileLike, div: TileLike) -> Tile:
    """Divide integers and round up: `cdiv(7, 4)` is 2. Of sizes and Python numbers it is known when compiling.

    Shapes, types and errors are those of `add`.

    >>> def application(x, y):
    ...     y = ntl.cdiv(x, 4)
    >>> run(application, torch.tensor([0, 1, 4, 5]), torch.empty(4, dtype=torch.int64))
    tensor([0, 1, 1, 2])
    """


@row
def umulhi(x: TileLike, y: TileLike) -> Tile:
    """Return the upper half of the bits of `x * y`, for integers of 32 or 64 bits. Shapes broadcast.

    Raises `ApplicationError` for floats and for narrower integers.

    >>> def application(x, y):
    ...     y = ntl.umulhi(x, x)
    >>> run(application, torch.tensor([2**31, 2**33]), torch.empty(2, dtype=torch.int64))
    tensor([0, 4])
    """


@row
def where(condition: TileLike, x: TileLike, y: TileLike) -> Tile:
    """Choose element by element: that of `x` where `condition` is true, else that of `y`.

    The three broadcast; the type is that in which `x` and `y` meet. A conditional expression is the same.
    Raises `ApplicationError` where shapes do not broadcast.

    >>> def application(x, y):
    ...     y = ntl.where(x > 0, x, 0.1 * x)
    >>> run(application, torch.tensor([-1.0, 2.0]), torch.empty(2))
    tensor([-0.1000,  2.0000])
    """


@row
def maximum(x: TileLike, y: TileLike, propagate_nan: Nan = None) -> Tile:
    """Return the greater of each two elements. Python's `max(x, y)` is the same; `ntl.max` reduces.

    Of a NaN and a number it is the number, unless `propagate_nan` is `ntl.PropagateNan.ALL`. Shapes, types and errors
    are those of `add`.

    >>> def application(x, y):
    ...     y = ntl.maximum(x, 0)
    >>> run(application, torch.tensor([-1.0, 2.0]), torch.empty(2))
    tensor([0., 2.])
    """


@row
def minimum(x: TileLike, y: TileLike, propagate_nan: Nan = None) -> Tile:
    """Return the lesser of each two elements. Python's `min(x, y)` is the same; `ntl.min` reduces.

    NaN, shapes, types and errors are those of `maximum`.

    >>> def application(x, y):
    ...     y = ntl.minimum(x, 0)
    >>> run(application, torch.tensor([-1.0, 2.0]), torch.empty(2))
    tensor([-1.,  0.])
    """


@row
def clamp(x: TileLike, min: TileLike, max: TileLike, propagate_nan: Nan = None) -> Tile:
    """Return `minimum(maximum(x, min), max)`: each element, or the bound that it exceeds.

    NaN, shapes, types and errors are those of `maximum`.

    >>> def application(x, y):
    ...     y = ntl.clamp(x, 0, 6)
    >>> run(application, torch.tensor([-1.0, 2.0, 7.0]), torch.empty(3))
    tensor([0., 2., 6.])
    """


@row
def swizzle2d(i: TileLike, j: TileLike, size_i: TileLike, size_j: TileLike, size_g: TileLike) -> tuple[Tile, Tile]:
    """Reorder places of a `size_i` x `size_j` matrix: column by column within groups of `size_g` rows.

    Takes and returns row and column. Programs of kernels made by arrangement need it rarely: the compiler orders them.

    >>> def application(x, y):
    ...     row, column = ntl.swizzle2d(x // 4, x % 4, 4, 4, 2)
    ...     y = row * 4 + column
    >>> run(application, torch.arange(16), torch.empty(16, dtype=torch.int64)).view(4, 4)
    tensor([[ 0,  4,  1,  5],
            [ 2,  6,  3,  7],
            [ 8, 12,  9, 13],
            [10, 14, 11, 15]])
    """

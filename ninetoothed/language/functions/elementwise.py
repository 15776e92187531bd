"""Element-wise functions of one tile: mathematics, rounding and conversion."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from ninetoothed.language.functions.row import row
from ninetoothed.language.types import DTypeLike, Tile, TileLike


@row
def abs(x: TileLike) -> Tile:
    """Return the absolute value of each element, in the type of `x`. Python's `abs` is the same.

    >>> def application(x, y):
    ...     y = ntl.abs(x)
    >>> run(application, torch.tensor([-2.0, 3.0]), torch.empty(2))
    tensor([2., 3.])
    """


@row
def exp(x: TileLike) -> Tile:
    """Raise e to the power of each element.

    Halves keep their type and are computed in float32; integers give float32. The shape stays.

    >>> def application(x, y):
    ...     y = ntl.exp(x)
    >>> run(application, torch.tensor([0.0, 1.0, 2.0]), torch.empty(3))
    tensor([1.0000, 2.7183, 7.3891])
    """


@row
def exp2(x: TileLike) -> Tile:
    """Raise 2 to the power of each element. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.exp2(x)
    >>> run(application, torch.tensor([0.0, 1.0, 3.0]), torch.empty(3))
    tensor([1., 2., 8.])
    """


@row
def log(x: TileLike) -> Tile:
    """Return the natural logarithm of each element; -inf of 0, NaN of a negative number. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.log(x)
    >>> run(application, torch.tensor([0.0, 1.0, 10.0]), torch.empty(3))
    tensor([  -inf, 0.0000, 2.3026])
    """


@row
def log2(x: TileLike) -> Tile:
    """Return the logarithm to base 2 of each element; -inf of 0, NaN of a negative number. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.log2(x)
    >>> run(application, torch.tensor([1.0, 2.0, 1024.0]), torch.empty(3))
    tensor([ 0.,  1., 10.])
    """


@row
def sqrt(x: TileLike) -> Tile:
    """Return the square root of each element, NaN of a negative number; on a GPU a fast approximation in float32.

    Types are those of `exp`. `sqrt_rn` rounds correctly.

    >>> def application(x, y):
    ...     y = ntl.sqrt(x)
    >>> run(application, torch.tensor([0.0, 2.0, 9.0]), torch.empty(3))
    tensor([0.0000, 1.4142, 3.0000])
    """


@row
def sqrt_rn(x: TileLike) -> Tile:
    """Return the square root of each element, rounded to the nearest number. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.sqrt_rn(x)
    >>> run(application, torch.tensor([0.0, 2.0, 9.0]), torch.empty(3))
    tensor([0.0000, 1.4142, 3.0000])
    """


@row
def rsqrt(x: TileLike) -> Tile:
    """Return 1 / sqrt(x) of each element; inf of 0. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.rsqrt(x)
    >>> run(application, torch.tensor([0.25, 1.0, 4.0]), torch.empty(3))
    tensor([2.0000, 1.0000, 0.5000])
    """


@row
def sin(x: TileLike) -> Tile:
    """Return the sine of each element, an angle in radians. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.sin(x)
    >>> run(application, torch.tensor([0.0, 1.0]), torch.empty(2))
    tensor([0.0000, 0.8415])
    """


@row
def cos(x: TileLike) -> Tile:
    """Return the cosine of each element, an angle in radians. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.cos(x)
    >>> run(application, torch.tensor([0.0, 1.0]), torch.empty(2))
    tensor([1.0000, 0.5403])
    """


@row
def tanh(x: TileLike) -> Tile:
    """Return the hyperbolic tangent of each element. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.tanh(x)
    >>> run(application, torch.tensor([0.0, 1.0]), torch.empty(2))
    tensor([0.0000, 0.7616])
    """


@row
def erf(x: TileLike) -> Tile:
    """Return the error function of each element. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = 0.5 * x * (1 + ntl.erf(x * 0.5**0.5))  # GELU
    >>> run(application, torch.tensor([-1.0, 0.0, 1.0]), torch.empty(3))
    tensor([-0.1587,  0.0000,  0.8413])
    """


@row
def sigmoid(x: TileLike) -> Tile:
    """Return 1 / (1 + exp(-x)) of each element. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = x * ntl.sigmoid(x)  # SiLU
    >>> run(application, torch.tensor([-1.0, 0.0, 1.0]), torch.empty(3))
    tensor([-0.2689,  0.0000,  0.7311])
    """


@row
def floor(x: TileLike) -> Tile:
    """Round each element down to a whole number. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.floor(x)
    >>> run(application, torch.tensor([-1.5, 1.5]), torch.empty(2))
    tensor([-2.,  1.])
    """


@row
def ceil(x: TileLike) -> Tile:
    """Round each element up to a whole number. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.ceil(x)
    >>> run(application, torch.tensor([-1.5, 1.5]), torch.empty(2))
    tensor([-1.,  2.])
    """


@row
def softmax(x: TileLike, dim: int | None = None, keep_dims: bool = False) -> Tile:
    """Return exp(x - max) / (sum of exp(x - max)) along `dim`, by default the last dimension.

    The shape stays, whatever `keep_dims` is. Halves and integers give float32. Elements past the end of a dimension
    take no part. Raises `ApplicationError` for a `dim` that the tile has not.

    >>> def application(x, y):
    ...     y = ntl.softmax(x)
    >>> run(application, torch.tensor([0.0, 0.0, 1.0]), torch.empty(3))
    tensor([0.2119, 0.2119, 0.5761])
    """


@row
def cast(input: TileLike, dtype: DTypeLike, fp_downcast_rounding: str | None = None, bitcast: bool = False) -> Tile:
    """Convert each element to `dtype`; `x.to(dtype)` is the same. A store converts by itself.

    Floats become integers by truncation: what 32 or 64 bits do not hold becomes the nearest that they do, narrower
    types wrap from int32 (but for an infinity that is written), and NaN becomes any number. Anything becomes `ntl.int1`
    by `!= 0`. With `bitcast` the bits stay, and are read as the other type. `fp_downcast_rounding` is accepted and
    ignored: numbers round to the nearest.

    dtype: one of `ntl`, PyTorch or Triton, or Python's `float` (float32), `int` (int32), `bool` (int1).
    Raises `ApplicationError` for what is no such type, and where `bitcast` meets types of two widths.

    >>> def application(x, y):
    ...     y = ntl.cast(x, ntl.int32) + ntl.cast(x > 2, ntl.int32)
    >>> run(application, torch.tensor([-1.9, 1.9, 2.9]), torch.empty(3, dtype=torch.int32))
    tensor([-1,  1,  3], dtype=torch.int32)
    """


@row
def to_tensor(x: TileLike) -> Tile:
    """Make a tile of no dimensions of a number; a tile stays what it is. Floats become float32, ints int32.

    >>> def application(x, y):
    ...     y = x * ntl.to_tensor(2.5)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(2))
    tensor([2.5000, 5.0000])
    """

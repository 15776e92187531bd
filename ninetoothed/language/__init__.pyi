"""The namespace that applications use, as `import ninetoothed.language as ntl`.

`functions/` holds the names that an application may call, by family. `primitives.py` holds the functions of `ir.Apply`
to which the frontend reduces them, and which backends have each. `types.py` holds the static types of an application's
values. Editors and type checkers read `__init__.pyi`, which `docs/stub.py` writes from the rows.

`help(ntl.exp)` shows a function's types, errors and an example. There, `run(application, *arguments)` makes a kernel
each of whose parameters is one tile, calls it and returns the last argument.
"""

# Written by `python docs/stub.py` from the rows of `ninetoothed.language`; do not edit.

import enum
from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol, TypeAlias, Union, overload

import torch

from ninetoothed.dtypes import DType

class Level(DType):
    """The elements of a tile: the next level of a parameter, or the element type of the innermost level.

    >>> def application(x, y):
    ...     assert x.dtype == ntl.float32 and x.dtype.bits == 32
    ...     y = x.to(ntl.float16).to(x.dtype)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(2))
    tensor([1., 2.])
    """

    shape: tuple[int, ...]
    ndim: int
    dtype: Level

class Source:
    """The tensor that a parameter was arranged from, whole: `x.source`.

    Its sizes and strides are those of the tensor that was passed. Indexing it with tiles of indices gathers; what is
    out of bounds reads `other`, else 0. Assigning to it scatters; what is out of bounds is not written.

    >>> def application(x, y):
    ...     y = x.source[x.source.shape[0] - 1 - x.offsets(0)]
    >>> run(application, torch.tensor([1.0, 2.0, 3.0]), torch.empty(3))
    tensor([3., 2., 1.])
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the tensor."""

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides of the tensor, in elements."""

    @property
    def ndim(self) -> int:
        """The number of dimensions of the tensor."""

    @property
    def dtype(self) -> Level:
        """The element type of the tensor."""

    def size(self, dim: int | None = None) -> Any:
        """Return the size along `dim`, or all sizes as a tuple."""

    def stride(self, dim: int | None = None) -> Any:
        """Return the stride along `dim`, in elements, or all strides as a tuple."""

    def data_ptr(self) -> Tile:
        """Return the pointer to the first element, for `ntl.load`, `ntl.store` and the atomic functions."""

    def __getitem__(self, indices: TileLike | tuple[TileLike, ...]) -> Tile: ...
    def __setitem__(self, indices: TileLike | tuple[TileLike, ...], value: TileLike) -> None: ...

class Tile:
    """A value of an application: a parameter, an element of one, or a result. A number is a tile of no dimensions.

    Arithmetic, comparisons, `and`, `or`, `not` and conditional expressions work element by element, and broadcast as in
    NumPy. `x[i]` is an element of the next level; of what is computed, too, elements can be read, as by `v[0]` and
    `v[i, :]`, and none be assigned. Assigning a parameter's name stores. Each function of `ntl` whose first argument is
    a tile is a method, too: `x.sum(0)` is `ntl.sum(x, 0)`.

    >>> def application(x, y):
    ...     y = x.sum() - x[0] if x.shape[0] > 1 else x
    >>> run(application, torch.tensor([1.0, 2.0, 3.0]), torch.empty(3))
    tensor([5., 5., 5.])
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of this level, without rounding to powers of two."""

    @property
    def ndim(self) -> int:
        """The number of dimensions of this level."""

    @property
    def dtype(self) -> Level:
        """The next level, or the element type of the innermost one."""

    @property
    def source(self) -> Source:
        """The tensor that a parameter was arranged from."""

    @property
    def T(self) -> Tile:
        """This tile with its last two dimensions exchanged."""

    def offsets(self, dim: int | None = None) -> Tile:
        """Return the indices of a parameter's tile along dimension `dim` of its source, as integers.

        They span the dimensions of the tile on which they depend. Without `dim`: offsets in elements from the first
        element, strides included.
        """

    def data_ptr(self) -> Tile:
        """Return the pointer to the first element of a parameter's source."""

    def to(self, dtype: DTypeLike, fp_downcast_rounding: str | None = None, bitcast: bool = False) -> Tile:
        """Convert to another element type, as `ntl.cast` does."""

    def __getitem__(self, key: Any) -> Tile: ...
    def __setitem__(self, key: Any, value: TileLike) -> None: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __index__(self) -> int: ...
    def __float__(self) -> float: ...
    def __round__(self, digits: int | None = None) -> Tile: ...
    def __abs__(self) -> Tile: ...
    def __neg__(self) -> Tile: ...

    __pos__ = __invert__ = __neg__

    def __add__(self, other: TileLike) -> Tile: ...

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = __add__
    __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __and__ = __rand__ = __or__ = __ror__ = __add__
    __xor__ = __rxor__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __add__

    def __divmod__(self, other: TileLike) -> tuple[Tile, Tile]: ...
    def __matmul__(self, other: Tile) -> Tile: ...
    def __eq__(self, other: object) -> Tile: ...  # type: ignore[override]
    def __ne__(self, other: object) -> Tile: ...  # type: ignore[override]

    # A tile, too; Python's `max` and `min`, which work on tiles, want a bool.
    def __lt__(self, other: TileLike) -> Any: ...

    __le__ = __gt__ = __ge__ = __lt__

    def abs(self) -> Tile:
        """Return the absolute value of each element, in the type of `x`. Python's `abs` is the same. See `ntl.abs`."""

    def exp(self) -> Tile:
        """Raise e to the power of each element. See `ntl.exp`."""

    def exp2(self) -> Tile:
        """Raise 2 to the power of each element. Types are those of `exp`. See `ntl.exp2`."""

    def log(self) -> Tile:
        """See `ntl.log`."""

    def log2(self) -> Tile:
        """See `ntl.log2`."""

    def sqrt(self) -> Tile:
        """See `ntl.sqrt`."""

    def sqrt_rn(self) -> Tile:
        """See `ntl.sqrt_rn`."""

    def rsqrt(self) -> Tile:
        """Return 1 / sqrt(x) of each element; inf of 0. Types are those of `exp`. See `ntl.rsqrt`."""

    def sin(self) -> Tile:
        """Return the sine of each element, an angle in radians. Types are those of `exp`. See `ntl.sin`."""

    def cos(self) -> Tile:
        """Return the cosine of each element, an angle in radians. Types are those of `exp`. See `ntl.cos`."""

    def tanh(self) -> Tile:
        """Return the hyperbolic tangent of each element. Types are those of `exp`. See `ntl.tanh`."""

    def erf(self) -> Tile:
        """Return the error function of each element. Types are those of `exp`. See `ntl.erf`."""

    def sigmoid(self) -> Tile:
        """Return 1 / (1 + exp(-x)) of each element. Types are those of `exp`. See `ntl.sigmoid`."""

    def floor(self) -> Tile:
        """Round each element down to a whole number. Types are those of `exp`. See `ntl.floor`."""

    def ceil(self) -> Tile:
        """Round each element up to a whole number. Types are those of `exp`. See `ntl.ceil`."""

    def softmax(self, dim: int | None = None, keep_dims: bool = False) -> Tile:
        """Return exp(x - max) / (sum of exp(x - max)) along `dim`, by default the last dimension. See `ntl.softmax`."""

    def cast(self, dtype: DTypeLike, fp_downcast_rounding: str | None = None, bitcast: bool = False) -> Tile:
        """Convert each element to `dtype`; `x.to(dtype)` is the same. A store converts by itself. See `ntl.cast`."""

    def to_tensor(self) -> Tile:
        """See `ntl.to_tensor`."""

    def add(self, y: TileLike, sanitize_overflow: bool = True) -> Tile:
        """Return `x + y`, element by element. Shapes broadcast as in NumPy. See `ntl.add`."""

    def sub(self, y: TileLike, sanitize_overflow: bool = True) -> Tile:
        """Return `x - y`. Shapes, types and errors are those of `add`. See `ntl.sub`."""

    def mul(self, y: TileLike, sanitize_overflow: bool = True) -> Tile:
        """Return `x * y`, element by element. Shapes, types and errors are those of `add`. See `ntl.mul`."""

    def pow(self, y: TileLike) -> Tile:
        """See `ntl.pow`."""

    def fdiv(self, y: TileLike, ieee_rounding: bool = False) -> Tile:
        """Return `x / y`: integers and halves give float32. Shapes and errors are those of `add`. See `ntl.fdiv`."""

    def div_rn(self, y: TileLike) -> Tile:
        """See `ntl.div_rn`."""

    def fma(self, y: TileLike, z: TileLike) -> Tile:
        """See `ntl.fma`."""

    def cdiv(self, div: TileLike) -> Tile:
        """See `ntl.cdiv`."""

    def umulhi(self, y: TileLike) -> Tile:
        """See `ntl.umulhi`."""

    def where(self, x: TileLike, y: TileLike) -> Tile:
        """Choose element by element: that of `x` where `condition` is true, else that of `y`. See `ntl.where`."""

    def maximum(self, y: TileLike, propagate_nan: Nan = None) -> Tile:
        """See `ntl.maximum`."""

    def minimum(self, y: TileLike, propagate_nan: Nan = None) -> Tile:
        """See `ntl.minimum`."""

    def clamp(self, min: TileLike, max: TileLike, propagate_nan: Nan = None) -> Tile:
        """Return `minimum(maximum(x, min), max)`: each element, or the bound that it exceeds. See `ntl.clamp`."""

    def swizzle2d(self, j: TileLike, size_i: TileLike, size_j: TileLike, size_g: TileLike) -> tuple[Tile, Tile]:
        """See `ntl.swizzle2d`."""

    def zeros_like(self) -> Tile:
        """Make a tile of zeros of the shape and type of `input`. See `ntl.zeros_like`."""

    def broadcast(self, other: TileLike) -> tuple[Tile, Tile]:
        """Give two tiles their common shape, as arithmetic on them does. Types stay. See `ntl.broadcast`."""

    def broadcast_to(self, *shape: Shape) -> Tile:
        """See `ntl.broadcast_to`."""

    def expand_dims(self, axis: int | tuple[int, ...]) -> Tile:
        """See `ntl.expand_dims`."""

    def unsqueeze(self, dim: int | tuple[int, ...]) -> Tile:
        """Add a dimension of size 1 at `dim`. PyTorch's name of `expand_dims`, with its errors. See `ntl.unsqueeze`."""

    def squeeze(self, dim: int) -> Tile:
        """See `ntl.squeeze`."""

    def reshape(self, *shape: Shape) -> Tile:
        """See `ntl.reshape`."""

    def view(self, *shape: Shape) -> Tile:
        """Give the elements another shape. PyTorch's name of `reshape`, with its errors. See `ntl.view`."""

    def ravel(self) -> Tile:
        """Make all dimensions one, in row-major order. Errors are those of `reshape`. See `ntl.ravel`."""

    def permute(self, *dims: int | tuple[int, ...]) -> Tile:
        """See `ntl.permute`."""

    def trans(self, *dims: int | tuple[int, ...]) -> Tile:
        """See `ntl.trans`."""

    def flip(self, dim: int | None = None) -> Tile:
        """Reverse the order of elements along `dim`, by default the last dimension. See `ntl.flip`."""

    def gather(self, index: TileLike, axis: int) -> Tile:
        """See `ntl.gather`."""

    def join(self, b: TileLike) -> Tile:
        """See `ntl.join`."""

    def split(self) -> tuple[Tile, Tile]:
        """Take a last dimension of size 2 apart; `split(join(a, b))` is `(a, b)`. See `ntl.split`."""

    def interleave(self, b: TileLike) -> Tile:
        """See `ntl.interleave`."""

    def cat(self, other: TileLike, can_reorder: bool = False) -> Tile:
        """See `ntl.cat`."""

    def sum(self, axis: int | None = None, keep_dims: bool = False, dtype: DTypeLike | None = None) -> Tile:
        """See `ntl.sum`."""

    def mean(self, axis: int | None = None, keep_dims: bool = False) -> Tile:
        """See `ntl.mean`."""

    def var(self, axis: int | None = None, correction: float = 1, keep_dims: bool = False) -> Tile:
        """See `ntl.var`."""

    def xor_sum(self, axis: int | None = None, keep_dims: bool = False) -> Tile:
        """See `ntl.xor_sum`."""

    def reduce_or(self, axis: int | None = None, keep_dims: bool = False) -> Tile:
        """See `ntl.reduce_or`."""

    @overload
    def max(
        self,
        axis: int | None = None,
        return_indices: Literal[False] = False,
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
    ) -> Tile:
        """See `ntl.max`."""
    @overload
    def max(
        self,
        axis: int | None = None,
        *,
        return_indices: Literal[True],
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
    ) -> tuple[Tile, Tile]: ...

    @overload
    def min(
        self,
        axis: int | None = None,
        return_indices: Literal[False] = False,
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
    ) -> Tile:
        """See `ntl.min`."""
    @overload
    def min(
        self,
        axis: int | None = None,
        *,
        return_indices: Literal[True],
        return_indices_tie_break_left: bool = True,
        keep_dims: bool = False,
    ) -> tuple[Tile, Tile]: ...

    def argmax(self, axis: int | None, tie_break_left: bool = True, keep_dims: bool = False) -> Tile:
        """See `ntl.argmax`."""

    def argmin(self, axis: int | None, tie_break_left: bool = True, keep_dims: bool = False) -> Tile:
        """See `ntl.argmin`."""

    def reduce(self, axis: int | None, combine_fn: Callable[..., Any], keep_dims: bool = False) -> Any:
        """See `ntl.reduce`."""

    def associative_scan(self, axis: int, combine_fn: Callable[..., Any], reverse: bool = False) -> Any:
        """See `ntl.associative_scan`."""

    def cumsum(self, axis: int = 0, reverse: bool = False) -> Tile:
        """See `ntl.cumsum`."""

    def cumprod(self, axis: int = 0, reverse: bool = False) -> Tile:
        """Multiply each element and all before it along `axis`. All else is as for `cumsum`. See `ntl.cumprod`."""

    def dot(
        self,
        other: TileLike,
        acc: TileLike | None = None,
        input_precision: str | None = None,
        allow_tf32: bool | None = None,
        max_num_imprecise_acc: int | None = None,
        out_dtype: DTypeLike | None = None,
    ) -> Tile:
        """See `ntl.dot`."""

    def dot_scaled(
        self,
        lhs_scale: TileLike,
        lhs_format: str,
        rhs: TileLike,
        rhs_scale: TileLike,
        rhs_format: str,
        acc: TileLike | None = None,
        out_dtype: DTypeLike = float32,
    ) -> Tile:
        """Multiply matrices in microscaling formats, as Triton's `dot_scaled` does. See `ntl.dot_scaled`."""

    @overload
    def sort(self, dim: int | None = None, descending: bool = False, return_indices: Literal[False] = False) -> Tile:
        """See `ntl.sort`."""
    @overload
    def sort(
        self, dim: int | None = None, descending: bool = False, *, return_indices: Literal[True]
    ) -> tuple[Tile, Tile]: ...

    def bitonic_merge(self, dim: int | None = None, descending: bool = False) -> Tile:
        """See `ntl.bitonic_merge`."""

    @overload
    def topk(self, k: int, dim: int | None = None, return_indices: Literal[False] = False) -> Tile:
        """See `ntl.topk`."""
    @overload
    def topk(self, k: int, dim: int | None = None, *, return_indices: Literal[True]) -> tuple[Tile, Tile]: ...

    def histogram(self, num_bins: int) -> Tile:
        """See `ntl.histogram`."""

    def load(self, mask: TileLike | None = None, other: TileLike | None = None) -> Tile:
        """See `ntl.load`."""

    def store(self, value: TileLike, mask: TileLike | None = None) -> None:
        """Write `value` to where pointers point, except where `mask` is false. See `ntl.store`."""

    def atomic_add(
        self, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
    ) -> Tile:
        """See `ntl.atomic_add`."""

    def atomic_max(
        self, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
    ) -> Tile:
        """See `ntl.atomic_max`."""

    def atomic_min(
        self, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
    ) -> Tile:
        """See `ntl.atomic_min`."""

    def atomic_and(
        self, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
    ) -> Tile:
        """See `ntl.atomic_and`."""

    def atomic_or(
        self, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
    ) -> Tile:
        """Add the bits of `val` to elements of a parameter, and return the old values. See `ntl.atomic_or`."""

    def atomic_xor(
        self, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
    ) -> Tile:
        """Turn the bits of `val` in elements of a parameter, and return the old values. See `ntl.atomic_xor`."""

    def atomic_xchg(
        self, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
    ) -> Tile:
        """Replace elements of a parameter by `val`, and return the old values. See `ntl.atomic_xchg`."""

    def atomic_cas(self, cmp: TileLike, val: TileLike, sem: str | None = None, scope: str | None = None) -> Tile:
        """See `ntl.atomic_cas`."""

class Named(Protocol):
    """An element type by its name, such as one of `triton.language`."""

    @property
    def name(self) -> str: ...

TileLike: TypeAlias = Tile | float

DTypeLike: TypeAlias = "DType | torch.dtype | type[float] | type[int] | Named"

Shape: TypeAlias = "int | Tile | tuple[int | Tile, ...] | list[int | Tile]"

Nan: TypeAlias = 'PropagateNan | Literal["all", "none"] | None'

TRITON_MAX_TENSOR_NUMEL: int = 2**20

class PropagateNan(enum.Enum):
    """Choose whether `maximum`, `minimum` and `clamp` give NaN for an operand that is NaN."""

    NONE = 0
    ALL = 0xFFFF

constexpr: TypeAlias = Any
"""Marks an annotation as known when compiling (`p: ntl.constexpr = "ieee"`); calling it returns its argument."""

int1: DType
int8: DType
int16: DType
int32: DType
int64: DType
uint8: DType
uint16: DType
uint32: DType
uint64: DType
float8e4nv: DType
float8e5: DType
float16: DType
bfloat16: DType
float32: DType
float64: DType

def abs(x: TileLike) -> Tile:
    """Return the absolute value of each element, in the type of `x`. Python's `abs` is the same.

    >>> def application(x, y):
    ...     y = ntl.abs(x)
    >>> run(application, torch.tensor([-2.0, 3.0]), torch.empty(2))
    tensor([2., 3.])
    """

def exp(x: TileLike) -> Tile:
    """Raise e to the power of each element.

    Halves keep their type and are computed in float32; integers give float32. The shape stays.

    >>> def application(x, y):
    ...     y = ntl.exp(x)
    >>> run(application, torch.tensor([0.0, 1.0, 2.0]), torch.empty(3))
    tensor([1.0000, 2.7183, 7.3891])
    """

def exp2(x: TileLike) -> Tile:
    """Raise 2 to the power of each element. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.exp2(x)
    >>> run(application, torch.tensor([0.0, 1.0, 3.0]), torch.empty(3))
    tensor([1., 2., 8.])
    """

def log(x: TileLike) -> Tile:
    """Return the natural logarithm of each element; -inf of 0, NaN of a negative number. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.log(x)
    >>> run(application, torch.tensor([0.0, 1.0, 10.0]), torch.empty(3))
    tensor([  -inf, 0.0000, 2.3026])
    """

def log2(x: TileLike) -> Tile:
    """Return the logarithm to base 2 of each element; -inf of 0, NaN of a negative number. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.log2(x)
    >>> run(application, torch.tensor([1.0, 2.0, 1024.0]), torch.empty(3))
    tensor([ 0.,  1., 10.])
    """

def sqrt(x: TileLike) -> Tile:
    """Return the square root of each element, NaN of a negative number; on a GPU a fast approximation in float32.

    Types are those of `exp`. `sqrt_rn` rounds correctly.

    >>> def application(x, y):
    ...     y = ntl.sqrt(x)
    >>> run(application, torch.tensor([0.0, 2.0, 9.0]), torch.empty(3))
    tensor([0.0000, 1.4142, 3.0000])
    """

def sqrt_rn(x: TileLike) -> Tile:
    """Return the square root of each element, rounded to the nearest number. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.sqrt_rn(x)
    >>> run(application, torch.tensor([0.0, 2.0, 9.0]), torch.empty(3))
    tensor([0.0000, 1.4142, 3.0000])
    """

def rsqrt(x: TileLike) -> Tile:
    """Return 1 / sqrt(x) of each element; inf of 0. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.rsqrt(x)
    >>> run(application, torch.tensor([0.25, 1.0, 4.0]), torch.empty(3))
    tensor([2.0000, 1.0000, 0.5000])
    """

def sin(x: TileLike) -> Tile:
    """Return the sine of each element, an angle in radians. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.sin(x)
    >>> run(application, torch.tensor([0.0, 1.0]), torch.empty(2))
    tensor([0.0000, 0.8415])
    """

def cos(x: TileLike) -> Tile:
    """Return the cosine of each element, an angle in radians. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.cos(x)
    >>> run(application, torch.tensor([0.0, 1.0]), torch.empty(2))
    tensor([1.0000, 0.5403])
    """

def tanh(x: TileLike) -> Tile:
    """Return the hyperbolic tangent of each element. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.tanh(x)
    >>> run(application, torch.tensor([0.0, 1.0]), torch.empty(2))
    tensor([0.0000, 0.7616])
    """

def erf(x: TileLike) -> Tile:
    """Return the error function of each element. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = 0.5 * x * (1 + ntl.erf(x * 0.5**0.5))  # GELU
    >>> run(application, torch.tensor([-1.0, 0.0, 1.0]), torch.empty(3))
    tensor([-0.1587,  0.0000,  0.8413])
    """

def sigmoid(x: TileLike) -> Tile:
    """Return 1 / (1 + exp(-x)) of each element. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = x * ntl.sigmoid(x)  # SiLU
    >>> run(application, torch.tensor([-1.0, 0.0, 1.0]), torch.empty(3))
    tensor([-0.2689,  0.0000,  0.7311])
    """

def floor(x: TileLike) -> Tile:
    """Round each element down to a whole number. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.floor(x)
    >>> run(application, torch.tensor([-1.5, 1.5]), torch.empty(2))
    tensor([-2.,  1.])
    """

def ceil(x: TileLike) -> Tile:
    """Round each element up to a whole number. Types are those of `exp`.

    >>> def application(x, y):
    ...     y = ntl.ceil(x)
    >>> run(application, torch.tensor([-1.5, 1.5]), torch.empty(2))
    tensor([-1.,  2.])
    """

def softmax(x: TileLike, dim: int | None = None, keep_dims: bool = False) -> Tile:
    """Return exp(x - max) / (sum of exp(x - max)) along `dim`, by default the last dimension.

    The shape stays, whatever `keep_dims` is. Halves and integers give float32. Elements past the end of a dimension
    take no part. Raises `ApplicationError` for a `dim` that the tile has not.

    >>> def application(x, y):
    ...     y = ntl.softmax(x)
    >>> run(application, torch.tensor([0.0, 0.0, 1.0]), torch.empty(3))
    tensor([0.2119, 0.2119, 0.5761])
    """

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

def to_tensor(x: TileLike) -> Tile:
    """Make a tile of no dimensions of a number; a tile stays what it is. Floats become float32, ints int32.

    >>> def application(x, y):
    ...     y = x * ntl.to_tensor(2.5)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(2))
    tensor([2.5000, 5.0000])
    """

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

def sub(x: TileLike, y: TileLike, sanitize_overflow: bool = True) -> Tile:
    """Return `x - y`. Shapes, types and errors are those of `add`.

    >>> def application(x, y, z):
    ...     z = ntl.sub(x, y)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0]), torch.empty(2))
    tensor([ -9., -18.])
    """

def mul(x: TileLike, y: TileLike, sanitize_overflow: bool = True) -> Tile:
    """Return `x * y`, element by element. Shapes, types and errors are those of `add`.

    >>> def application(x, y, z):
    ...     z = ntl.mul(x, y)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0]), torch.empty(2))
    tensor([10., 40.])
    """

def pow(x: TileLike, y: TileLike) -> Tile:
    """Return `x ** y`, element by element: of integers an integer, which wraps; of halves that half.

    Integers to a negative power that is known when compiling give float32, and to one that only a call tells their
    fraction is dropped. Shapes and errors are those of `add`.

    >>> def application(x, y):
    ...     y = ntl.pow(x, 3)
    >>> run(application, torch.tensor([1.0, 2.0, -3.0]), torch.empty(3))
    tensor([  1.,   8., -27.])
    """

def fdiv(x: TileLike, y: TileLike, ieee_rounding: bool = False) -> Tile:
    """Return `x / y`: integers and halves give float32. Shapes and errors are those of `add`.

    `ieee_rounding` is accepted and ignored; `div_rn` rounds correctly on every GPU.

    >>> def application(x, y, z):
    ...     z = ntl.fdiv(x, y)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.tensor([4.0, 5.0]), torch.empty(2))
    tensor([0.2500, 0.4000])
    """

def div_rn(x: TileLike, y: TileLike) -> Tile:
    """Return `x / y`, rounded to the nearest number. Shapes and errors are those of `add`, types those of `exp`.

    >>> def application(x, y, z):
    ...     z = ntl.div_rn(x, y)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.tensor([4.0, 5.0]), torch.empty(2))
    tensor([0.2500, 0.4000])
    """

def fma(x: TileLike, y: TileLike, z: TileLike) -> Tile:
    """Return `x * y + z`, rounded once. Shapes and errors are those of `add`, types those of `exp`.

    >>> def application(x, y, z, output):
    ...     output = ntl.fma(x, y, z)
    >>> run(application, torch.tensor([2.0]), torch.tensor([3.0]), torch.tensor([4.0]), torch.empty(1))
    tensor([10.])
    """

def cdiv(x: TileLike, div: TileLike) -> Tile:
    """Divide integers and round up: `cdiv(7, 4)` is 2. Of sizes and Python numbers it is known when compiling.

    Shapes, types and errors are those of `add`.

    >>> def application(x, y):
    ...     y = ntl.cdiv(x, 4)
    >>> run(application, torch.tensor([0, 1, 4, 5]), torch.empty(4, dtype=torch.int64))
    tensor([0, 1, 1, 2])
    """

def umulhi(x: TileLike, y: TileLike) -> Tile:
    """Return the upper half of the bits of `x * y`, for integers of 32 or 64 bits. Shapes broadcast.

    Raises `ApplicationError` for floats and for narrower integers.

    >>> def application(x, y):
    ...     y = ntl.umulhi(x, x)
    >>> run(application, torch.tensor([2**31, 2**33]), torch.empty(2, dtype=torch.int64))
    tensor([0, 4])
    """

def where(condition: TileLike, x: TileLike, y: TileLike) -> Tile:
    """Choose element by element: that of `x` where `condition` is true, else that of `y`.

    The three broadcast; the type is that in which `x` and `y` meet. A conditional expression is the same.
    Raises `ApplicationError` where shapes do not broadcast.

    >>> def application(x, y):
    ...     y = ntl.where(x > 0, x, 0.1 * x)
    >>> run(application, torch.tensor([-1.0, 2.0]), torch.empty(2))
    tensor([-0.1000,  2.0000])
    """

def maximum(x: TileLike, y: TileLike, propagate_nan: Nan = None) -> Tile:
    """Return the greater of each two elements. Python's `max(x, y)` is the same; `ntl.max` reduces.

    Of a NaN and a number it is the number, unless `propagate_nan` is `ntl.PropagateNan.ALL`. Shapes, types and errors
    are those of `add`.

    >>> def application(x, y):
    ...     y = ntl.maximum(x, 0)
    >>> run(application, torch.tensor([-1.0, 2.0]), torch.empty(2))
    tensor([0., 2.])
    """

def minimum(x: TileLike, y: TileLike, propagate_nan: Nan = None) -> Tile:
    """Return the lesser of each two elements. Python's `min(x, y)` is the same; `ntl.min` reduces.

    NaN, shapes, types and errors are those of `maximum`.

    >>> def application(x, y):
    ...     y = ntl.minimum(x, 0)
    >>> run(application, torch.tensor([-1.0, 2.0]), torch.empty(2))
    tensor([-1.,  0.])
    """

def clamp(x: TileLike, min: TileLike, max: TileLike, propagate_nan: Nan = None) -> Tile:
    """Return `minimum(maximum(x, min), max)`: each element, or the bound that it exceeds.

    NaN, shapes, types and errors are those of `maximum`.

    >>> def application(x, y):
    ...     y = ntl.clamp(x, 0, 6)
    >>> run(application, torch.tensor([-1.0, 2.0, 7.0]), torch.empty(3))
    tensor([0., 2., 6.])
    """

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

def arange(start: int, end: int | None = None) -> Tile:
    """Count from `start` to `end`, which is left out, as an int32 tile of one dimension; from 0, given one number.

    Any length will do. Raises `ApplicationError` for floats, and for bounds that are not known when compiling.

    >>> def application(y):
    ...     y = ntl.arange(2, 5)
    >>> run(application, torch.empty(3, dtype=torch.int32))
    tensor([2, 3, 4], dtype=torch.int32)
    """

def full(shape: Shape, value: TileLike, dtype: DTypeLike) -> Tile:
    """Make a tile of `shape` whose elements are all `value`, converted to `dtype`.

    Raises `ApplicationError` for a shape that is not known when compiling, and a tile above 2**20 elements.

    >>> def application(y):
    ...     y = ntl.full(y.shape, 7, dtype=ntl.float32)
    >>> run(application, torch.empty(3))
    tensor([7., 7., 7.])
    """

def zeros(shape: Shape, dtype: DTypeLike = float32) -> Tile:
    """Make a tile of zeros. Errors are those of `full`.

    >>> def application(x, y):
    ...     total = ntl.zeros((1,), dtype=ntl.float32)
    ...     for i in range(3):
    ...         total += ntl.sum(x)
    ...     y = total
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(1))
    tensor([9.])
    """

def zeros_like(input: TileLike) -> Tile:
    """Make a tile of zeros of the shape and type of `input`.

    >>> def application(x, y):
    ...     y = ntl.zeros_like(x)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(2))
    tensor([0., 0.])
    """

def broadcast(input: TileLike, other: TileLike) -> tuple[Tile, Tile]:
    """Give two tiles their common shape, as arithmetic on them does. Types stay.

    Raises `ApplicationError` where the shapes do not broadcast.

    >>> def application(x, y):
    ...     rows, columns = ntl.broadcast(x[:, None], x[None, :])
    ...     y = rows * columns
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(2, 2))
    tensor([[1., 2.],
            [2., 4.]])
    """

def broadcast_to(input: TileLike, *shape: Shape) -> Tile:
    """Repeat dimensions of size 1 until the tile has `shape`, a tuple or numbers. Missing dimensions come first.

    Raises `ApplicationError` where the tile does not broadcast to it.

    >>> def application(x, y):
    ...     y = ntl.broadcast_to(x[None, :], (2, 3))
    >>> run(application, torch.tensor([1.0, 2.0, 3.0]), torch.empty(2, 3))
    tensor([[1., 2., 3.],
            [1., 2., 3.]])
    """

def expand_dims(input: TileLike, axis: int | tuple[int, ...]) -> Tile:
    """Add a dimension of size 1 at `axis`, or at each of several; `x[:, None]` is the same.

    Raises `ApplicationError` for an axis that the result would not have.

    >>> def application(x, y):
    ...     y = ntl.expand_dims(x, 1) + ntl.expand_dims(x, 0)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(2, 2))
    tensor([[2., 3.],
            [3., 4.]])
    """

def unsqueeze(x: TileLike, dim: int | tuple[int, ...]) -> Tile:
    """Add a dimension of size 1 at `dim`. PyTorch's name of `expand_dims`, with its errors.

    >>> def application(x, y):
    ...     y = ntl.unsqueeze(x, 1) * ntl.unsqueeze(x, 0)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(2, 2))
    tensor([[1., 2.],
            [2., 4.]])
    """

def squeeze(x: TileLike, dim: int) -> Tile:
    """Take away dimension `dim`, whose size is 1. Raises `ApplicationError` for any other size.

    >>> def application(x, y):
    ...     y = ntl.squeeze(x, 0)
    >>> run(application, torch.tensor([[1.0, 2.0]]), torch.empty(2))
    tensor([1., 2.])
    """

def reshape(input: TileLike, *shape: Shape) -> Tile:
    """Give the elements, in row-major order, another shape: a tuple or numbers, of which one may be -1.

    Dimensions that are split or joined must be powers of two, but for the first of each group.
    Raises `ApplicationError` where they are not, and where the numbers of elements differ.

    >>> def application(x, y):
    ...     y = ntl.sum(ntl.reshape(x, (-1, 2)), axis=1)
    >>> run(application, torch.arange(6.0), torch.empty(3))
    tensor([1., 5., 9.])
    """

def view(input: TileLike, *shape: Shape) -> Tile:
    """Give the elements another shape. PyTorch's name of `reshape`, with its errors.

    >>> def application(x, y):
    ...     y = ntl.view(x, 2, 2)
    >>> run(application, torch.arange(4.0), torch.empty(2, 2))
    tensor([[0., 1.],
            [2., 3.]])
    """

def ravel(x: TileLike) -> Tile:
    """Make all dimensions one, in row-major order. Errors are those of `reshape`.

    >>> def application(x, y):
    ...     y = ntl.ravel(x)
    >>> run(application, torch.arange(4.0).view(2, 2), torch.empty(4))
    tensor([0., 1., 2., 3.])
    """

def permute(input: TileLike, *dims: int | tuple[int, ...]) -> Tile:
    """Reorder dimensions: dimension d of the result is `dims[d]` of the tile. `dims` is a tuple or numbers.

    Raises `ApplicationError` where they are no permutation of the tile's dimensions.

    >>> def application(x, y):
    ...     y = ntl.permute(x, (1, 0))
    >>> run(application, torch.arange(4.0).view(2, 2), torch.empty(2, 2))
    tensor([[0., 2.],
            [1., 3.]])
    """

def trans(input: TileLike, *dims: int | tuple[int, ...]) -> Tile:
    """Exchange the last two dimensions, as `x.T` does; given `dims`, reorder all as `permute` does.

    Raises `ApplicationError` for a tile of fewer than two dimensions.

    >>> def application(x, y):
    ...     y = ntl.dot(x, ntl.trans(x))
    >>> run(application, torch.arange(4.0).view(2, 2), torch.empty(2, 2))
    tensor([[ 1.,  3.],
            [ 3., 13.]])
    """

def flip(x: TileLike, dim: int | None = None) -> Tile:
    """Reverse the order of elements along `dim`, by default the last dimension.

    Raises `ApplicationError` for a tile whose sizes are no powers of two, or are not known when compiling.

    >>> def application(x, y):
    ...     y = ntl.flip(x)
    >>> run(application, torch.arange(4.0), torch.empty(4))
    tensor([3., 2., 1., 0.])
    """

def gather(src: TileLike, index: TileLike, axis: int) -> Tile:
    """Take elements of a tile by their places along `axis`: `result[i, j] = src[index[i, j], j]` for axis 0.

    The result has the shape of `index`, whose elements are integers, and the type of `src`. An index outside the tile,
    negative ones too, reads 0, or of a parameter its `other`. `x.source[indices]` gathers from a whole tensor.

    Raises `ApplicationError` for an index of floats, and an axis that the tile has not.

    >>> def application(x, index, y):
    ...     y = ntl.gather(x, index, 0)
    >>> run(application, torch.tensor([10.0, 20.0]), torch.tensor([1, 0, 1, 1]), torch.empty(4))
    tensor([20., 10., 20., 20.])
    """

def join(a: TileLike, b: TileLike) -> Tile:
    """Stack two tiles along a new last dimension of size 2. They broadcast, and meet in one type.

    >>> def application(x, y):
    ...     y = ntl.join(x, -x)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(2, 2))
    tensor([[ 1., -1.],
            [ 2., -2.]])
    """

def split(a: TileLike) -> tuple[Tile, Tile]:
    """Take a last dimension of size 2 apart; `split(join(a, b))` is `(a, b)`.

    Raises `ApplicationError` for a last dimension of any other size.

    >>> def application(x, y):
    ...     real, imaginary = ntl.split(x)
    ...     y = real * real + imaginary * imaginary
    >>> run(application, torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.empty(2))
    tensor([25.,  4.])
    """

def interleave(a: TileLike, b: TileLike) -> Tile:
    """Alternate the elements of two tiles along the last dimension: `join`, its last two dimensions made one.

    Two numbers make a tile of two.

    >>> def application(x, y):
    ...     y = ntl.interleave(x, -x)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(4))
    tensor([ 1., -1.,  2., -2.])
    """

def cat(input: TileLike, other: TileLike, can_reorder: bool = False) -> Tile:
    """Put one tile of one dimension behind another of the same size. They meet in one type; order is kept.

    Raises `ApplicationError` for other shapes, and where the size is no power of two that is known when compiling.

    >>> def application(x, y):
    ...     y = ntl.cat(x, -x)
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(4))
    tensor([ 1.,  2., -1., -2.])
    """

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

def var(input: TileLike, axis: int | None = None, correction: float = 1, keep_dims: bool = False) -> Tile:
    """Return the variance along `axis`, or of all: the sum of squares of `x - ntl.mean(x)`, divided.

    The divisor is how many elements there are, less `correction`, which must be known when compiling, and never below
    0: as in PyTorch, 0 gives the mean of the squares. Types, shapes and errors are those of `mean`.

    >>> def application(x, y):
    ...     y = (x - ntl.mean(x)) * ntl.rsqrt(ntl.var(x, correction=0) + 1e-5)
    >>> run(application, torch.tensor([1.0, 3.0]), torch.empty(2))
    tensor([-1.0000,  1.0000])
    """

def xor_sum(input: TileLike, axis: int | None = None, keep_dims: bool = False) -> Tile:
    """Join the elements along `axis`, or all of them, by exclusive or. Shapes are those of `sum`.

    Integers narrower than 32 bits give int32. Raises `ApplicationError` for floats, and an axis that the tile has not.

    >>> def application(x, y):
    ...     y = ntl.xor_sum(x)
    >>> run(application, torch.tensor([1, 2, 7]), torch.empty(1, dtype=torch.int64))
    tensor([4])
    """

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
) -> Tile:
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
def max(
    input: TileLike,
    axis: int | None = None,
    *,
    return_indices: Literal[True],
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> tuple[Tile, Tile]: ...

@overload
def min(
    input: TileLike,
    axis: int | None = None,
    return_indices: Literal[False] = False,
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> Tile:
    """Return the least element along `axis`, or of all. NaN, places, shapes, types and errors are those of `max`.

    >>> def application(x, y):
    ...     least, place = ntl.min(x, axis=0, return_indices=True)
    ...     y = least + place
    >>> run(application, torch.tensor([5.0, 3.0]), torch.empty(1))
    tensor([4.])
    """
@overload
def min(
    input: TileLike,
    axis: int | None = None,
    *,
    return_indices: Literal[True],
    return_indices_tie_break_left: bool = True,
    keep_dims: bool = False,
) -> tuple[Tile, Tile]: ...

def argmax(input: TileLike, axis: int | None, tie_break_left: bool = True, keep_dims: bool = False) -> Tile:
    """Return the place of the greatest element along `axis`, or in row-major order where it is None, as int32.

    Of several that are equal it is the first, whatever `tie_break_left` is. NaN comes before any number; of no elements
    it is 0. Shapes are those of `sum`. Raises `ApplicationError` for an axis that the tile has not.

    >>> def application(x, y):
    ...     y = ntl.argmax(x, axis=1)
    >>> run(application, torch.tensor([[1.0, 3.0], [4.0, 2.0]]), torch.empty(2, dtype=torch.int32))
    tensor([1, 0], dtype=torch.int32)
    """

def argmin(input: TileLike, axis: int | None, tie_break_left: bool = True, keep_dims: bool = False) -> Tile:
    """Return the place of the least element along `axis`, or of the first NaN. All else is as for `argmax`.

    >>> def application(x, y):
    ...     y = ntl.argmin(x, axis=1)
    >>> run(application, torch.tensor([[1.0, 3.0], [4.0, 2.0]]), torch.empty(2, dtype=torch.int32))
    tensor([0, 1], dtype=torch.int32)
    """

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

def cumsum(input: TileLike, axis: int = 0, reverse: bool = False) -> Tile:
    """Add up each element and all before it along `axis`; with `reverse`, all behind it. The shape stays.

    Types are those of `sum`. Raises `ApplicationError` for an axis that the tile has not.

    >>> def application(x, y):
    ...     y = ntl.cumsum(x)
    >>> run(application, torch.tensor([1.0, 2.0, 3.0]), torch.empty(3))
    tensor([1., 3., 6.])
    """

def cumprod(input: TileLike, axis: int = 0, reverse: bool = False) -> Tile:
    """Multiply each element and all before it along `axis`. All else is as for `cumsum`.

    >>> def application(x, y):
    ...     y = ntl.cumprod(x)
    >>> run(application, torch.tensor([2.0, 3.0, 4.0]), torch.empty(3))
    tensor([ 2.,  6., 24.])
    """

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

@overload
def sort(x: TileLike, dim: int | None = None, descending: bool = False, return_indices: Literal[False] = False) -> Tile:
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
@overload
def sort(
    x: TileLike, dim: int | None = None, descending: bool = False, *, return_indices: Literal[True]
) -> tuple[Tile, Tile]: ...

def bitonic_merge(x: TileLike, dim: int | None = None, descending: bool = False) -> Tile:
    """Sort along the last dimension what rises and then falls there. It is `sort`, which needs no such order.

    >>> def application(x, y):
    ...     y = ntl.bitonic_merge(x)
    >>> run(application, torch.tensor([1.0, 4.0, 3.0, 2.0]), torch.empty(4))
    tensor([1., 2., 3., 4.])
    """

@overload
def topk(x: TileLike, k: int, dim: int | None = None, return_indices: Literal[False] = False) -> Tile:
    """Return the `k` greatest elements along the last dimension, the greatest first; of a number one, itself.

    With `return_indices`, return also their places, as int32: of equal elements, the first. All else is as for `sort`.
    Raises `ApplicationError` for another `dim`, a `k` that is not from 1 to the size, and a size that is not known when
    compiling.

    >>> def application(x, y, places):
    ...     y, places = ntl.topk(x, 2, return_indices=True)
    >>> run(application, torch.tensor([2.0, 3.0, 1.0]), torch.empty(2), torch.empty(2, dtype=torch.int64))
    tensor([1, 0])
    """
@overload
def topk(x: TileLike, k: int, dim: int | None = None, *, return_indices: Literal[True]) -> tuple[Tile, Tile]: ...

def histogram(input: TileLike, num_bins: int) -> Tile:
    """Count how often each of 0 to `num_bins - 1` is among the integers of a tile of one dimension, as int32.

    Integers outside that range are not counted.

    Raises `ApplicationError` for floats, and where `num_bins` is not known when compiling.

    >>> def application(x, y):
    ...     y = ntl.histogram(x, 4)
    >>> run(application, torch.tensor([1, 3, 1, 0], dtype=torch.int32), torch.empty(4, dtype=torch.int32))
    tensor([1, 2, 0, 1], dtype=torch.int32)
    """

def load(pointer: Tile, mask: TileLike | None = None, other: TileLike | None = None) -> Tile:
    """Read what pointers point to, such as `x.source.data_ptr() + offsets`; where `mask` is false, `other`, else 0.

    Pointer, mask and value broadcast. The type is that of the parameter. Most kernels need none of this: naming a
    parameter loads its tile, `x.source[i]` gathers, and both know where a tensor ends.

    Raises `ApplicationError` for what is no pointer.

    >>> def application(x, y):
    ...     i = y.offsets(0)
    ...     y = ntl.load(x.source.data_ptr() + i * 2, mask=i < 2, other=-1.0)
    >>> run(application, torch.arange(4.0), torch.empty(3))
    tensor([ 0.,  2., -1.])
    """

def store(pointer: Tile, value: TileLike, mask: TileLike | None = None) -> None:
    """Write `value` to where pointers point, except where `mask` is false.

    The three broadcast; the value is converted to the parameter's type. Elements past the end of a tile are not
    written. Assigning a parameter stores its tile, assigning to `y.source[i]` scatters. Errors are those of `load`.

    >>> def application(x, y):
    ...     i = x.offsets(0)
    ...     ntl.store(y.source.data_ptr() + i, x * 2, mask=i < 2)
    >>> run(application, torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3))
    tensor([2., 4., 0.])
    """

def atomic_add(
    pointer: Tile, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
) -> Tile:
    """Add `val` to elements of a parameter, whatever other programs add, and return the old values.

    The elements are named as in an assignment: a tile `y`, one of its elements `y[k]`, or `y.source[i]` with tiles of
    indices; or pointers point to them. They broadcast with value and mask. Nothing is added where `mask` is false or
    an element is out of bounds, nor to where pointers past the end of a tile point. `sem` is the memory order
    ("acq_rel", "acquire", "release", "relaxed"), `scope` which threads see it ("gpu", "cta", "sys").

    Raises `ApplicationError` for other types of elements than are named above, and for what is no element.

    >>> def application(x, y):
    ...     ntl.atomic_add(y.source[x % 2], 1.0)
    >>> run(application, torch.tensor([0, 1, 2, 4]), torch.zeros(2))
    tensor([3., 1.])
    """

def atomic_max(
    pointer: Tile, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
) -> Tile:
    """Replace elements of a parameter by `val` where that is greater, and return the old values.

    All else is as for `atomic_add`.

    >>> def application(x, y):
    ...     ntl.atomic_max(y, x)
    >>> run(application, torch.tensor([5, 9, 2]), torch.zeros(1, dtype=torch.int64))
    tensor([9])
    """

def atomic_min(
    pointer: Tile, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
) -> Tile:
    """Replace elements of a parameter by `val` where that is less, and return the old values.

    All else is as for `atomic_add`.

    >>> def application(x, y):
    ...     ntl.atomic_min(y, x)
    >>> run(application, torch.tensor([5, 9, 2]), torch.full((1,), 7))
    tensor([2])
    """

def atomic_and(
    pointer: Tile, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
) -> Tile:
    """Keep the bits that `val` has, too, of elements of a parameter, and return the old values.

    All else is as for `atomic_add`.

    >>> def application(x, y):
    ...     ntl.atomic_and(y, x)
    >>> run(application, torch.tensor([14, 7]), torch.full((1,), 15))
    tensor([6])
    """

def atomic_or(
    pointer: Tile, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
) -> Tile:
    """Add the bits of `val` to elements of a parameter, and return the old values.

    All else is as for `atomic_add`.

    >>> def application(x, y):
    ...     ntl.atomic_or(y, x)
    >>> run(application, torch.tensor([1, 4]), torch.zeros(1, dtype=torch.int64))
    tensor([5])
    """

def atomic_xor(
    pointer: Tile, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
) -> Tile:
    """Turn the bits of `val` in elements of a parameter, and return the old values.

    All else is as for `atomic_add`.

    >>> def application(x, y):
    ...     ntl.atomic_xor(y, x)
    >>> run(application, torch.tensor([1, 5]), torch.zeros(1, dtype=torch.int64))
    tensor([4])
    """

def atomic_xchg(
    pointer: Tile, val: TileLike, mask: TileLike | None = None, sem: str | None = None, scope: str | None = None
) -> Tile:
    """Replace elements of a parameter by `val`, and return the old values.

    All else is as for `atomic_add`.

    >>> def application(x, y):
    ...     y = ntl.atomic_xchg(x, 0.0)
    >>> x = torch.tensor([1.0, 2.0])
    >>> run(application, x, torch.empty(2)), x
    (tensor([1., 2.]), tensor([0., 0.]))
    """

def atomic_cas(pointer: Tile, cmp: TileLike, val: TileLike, sem: str | None = None, scope: str | None = None) -> Tile:
    """Replace elements of a parameter by `val` where they equal `cmp`, and return the old values.

    The elements are named as for `atomic_add`, and must be known to be in bounds. The operands broadcast; `sem` and
    `scope` are those of `atomic_add`.
    Raises `ApplicationError` for what is no element, and for sizes that are no powers of two known when compiling.

    >>> def application(x, y):
    ...     old = ntl.atomic_cas(y, x, -1)
    >>> run(application, torch.tensor([1, 2]), torch.tensor([1, 3]))
    tensor([-1,  3])
    """

def rand(seed: TileLike, offset: TileLike, n_rounds: int = 10) -> Tile:
    """Draw a float32 in [0, 1), of uniform distribution, for each offset.

    The same seed and offset give the same number on every device, and in Triton.

    offset: a tile of integers, such as `x.offsets()`, whose shape is the result's.
    n_rounds: how many rounds Philox takes, known when compiling.

    >>> def application(x, y):
    ...     y = ntl.where(ntl.rand(7, x.offsets()) < 0.5, x, 0)  # dropout
    >>> run(application, torch.ones(8), torch.empty(8))
    tensor([1., 0., 1., 0., 0., 0., 1., 0.])
    """

def randn(seed: TileLike, offset: TileLike, n_rounds: int = 10) -> Tile:
    """Draw a float32 of normal distribution, mean 0 and variance 1, for each offset. Arguments are those of `rand`.

    >>> def application(x, y):
    ...     y = ntl.randn(7, x.offsets())
    >>> bool(run(application, torch.ones(4096), torch.empty(4096)).std().sub(1).abs() < 0.05)
    True
    """

def randint(seed: TileLike, offset: TileLike, n_rounds: int = 10) -> Tile:
    """Draw an int32 of uniform distribution, all 32 bits random, for each offset. Arguments are those of `rand`.

    Half of them are negative; `% n` gives 0 to n - 1, as Python's does.

    >>> def application(x, y):
    ...     y = ntl.randint(7, x.offsets()) % 6
    >>> run(application, torch.ones(8), torch.empty(8, dtype=torch.int32)).min() >= 0
    tensor(True)
    """

def randint4x(seed: TileLike, offset: TileLike, n_rounds: int = 10) -> tuple[Tile, Tile, Tile, Tile]:
    """Draw four int32 for each offset, at the cost of one. Arguments are those of `rand`; the first is as of `randint`.

    >>> def application(x, y):
    ...     a, b, c, d = ntl.randint4x(7, x.offsets())
    ...     y = (a == ntl.randint(7, x.offsets())) & (a != b) & (c != d)
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """

def rand4x(seed: TileLike, offsets: TileLike, n_rounds: int = 10) -> tuple[Tile, Tile, Tile, Tile]:
    """Draw four numbers like `rand` for each offset, at the cost of one. Arguments are those of `rand`.

    >>> def application(x, y):
    ...     a, b, c, d = ntl.rand4x(7, x.offsets())
    ...     y = (a == ntl.rand(7, x.offsets())) & (b < 1)
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """

def randn4x(seed: TileLike, offset: TileLike, n_rounds: int = 10) -> tuple[Tile, Tile, Tile, Tile]:
    """Draw four numbers like `randn` for each offset. Arguments are those of `rand`.

    >>> def application(x, y):
    ...     a, b, c, d = ntl.randn4x(7, x.offsets())
    ...     y = ntl.sum(a + b + c + d) / (4 * x.shape[0])
    >>> bool(run(application, torch.ones(1024), torch.empty(1)).abs() < 0.1)
    True
    """

def philox(
    seed: TileLike, c0: TileLike, c1: TileLike, c2: TileLike, c3: TileLike, n_rounds: int = 10
) -> tuple[Tile, Tile, Tile, Tile]:
    """Draw four integers without sign of four counters, integers of 32 or 64 bits.

    `randint4x(seed, offset)` is this of the counters offset, 0, 0 and 0.
    The same seed and counters give the same bits on every device, and in Triton. The type of `c0` tells the width.
    Raises `ApplicationError` for floats, narrower integers, and a tile as the seed.

    >>> def application(x, y):
    ...     a, b, c, d = ntl.philox(7, x.offsets(), 0, 0, 0)
    ...     y = a.to(ntl.int32, bitcast=True) == ntl.randint(7, x.offsets())
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """

def philox_impl(
    c0: TileLike, c1: TileLike, c2: TileLike, c3: TileLike, k0: TileLike, k1: TileLike, n_rounds: int = 10
) -> tuple[Tile, Tile, Tile, Tile]:
    """Mix four counters by two keys, which are numbers: all are uint32, or all are uint64. Philox as it is published.

    Raises `ApplicationError` for other types, and a tile as a key.

    >>> def application(y):
    ...     zero = ntl.zeros(y.shape, ntl.uint32)
    ...     y, *others = ntl.philox_impl(zero, zero, zero, zero, 0, 0)
    >>> hex(run(application, torch.empty(1, dtype=torch.int64)).item())
    '0x6627e8d5'
    """

def uint_to_uniform_float(x: TileLike) -> Tile:
    """Make a float32 in [0, 1) of the bits of an integer of 32 or 64 bits. `rand` is this of `randint`.

    Raises `ApplicationError` for floats, and for narrower integers.

    >>> def application(x, y):
    ...     y = ntl.uint_to_uniform_float(x)
    >>> run(application, torch.tensor([0, 2**30], dtype=torch.int32), torch.empty(2))
    tensor([0.0000, 0.5000])
    """

def pair_uniform_to_normal(u1: TileLike, u2: TileLike) -> tuple[Tile, Tile]:
    """Make two independent numbers of normal distribution of two that are uniform in [0, 1), by Box and Muller.

    >>> def application(x, y):
    ...     cosine, sine = ntl.pair_uniform_to_normal(x, 0.0)
    ...     y = cosine
    >>> run(application, torch.tensor([0.5, 0.1]), torch.empty(2))
    tensor([1.1774, 2.1460])
    """

def range(
    start: TileLike,
    end: TileLike | None = None,
    step: TileLike | None = None,
    num_stages: int | None = None,
    loop_unroll_factor: int | None = None,
    disallow_acc_multi_buffer: bool = False,
    flatten: bool = False,
    warp_specialize: bool = False,
    merge: Callable[..., Any] | None = None,
) -> Iterable[int]:
    """Count in a `for` loop, as Python's `range` does. The other options are Triton's, and say how to compile the loop.

    merge: makes one of what two parts of the rounds have left, each of which started from what the variables held
        before the loop; the rounds may then be shared out over several programs. Its parameters are called like the
        variables that the loop carries, and then come those of the other part, in the same order.

    Raises `ApplicationError` where it is not the iterator of a `for` loop, where `merge` takes other variables than the
    loop carries, and where it does more than compute element by element.

    >>> def application(x, y):
    ...     total = ntl.zeros((1,), dtype=ntl.float32)
    ...     for i in ntl.range(x.shape[0], num_stages=1):
    ...         total += x[i]
    ...     y = total
    >>> run(application, torch.tensor([1.0, 2.0, 4.0]), torch.empty(1))
    tensor([7.])

    >>> def merge(highest, other_highest):
    ...     return ntl.maximum(highest, other_highest)
    >>> def application(x, y):
    ...     highest = ntl.full((1,), float("-inf"), dtype=ntl.float32)
    ...     for i in ntl.range(x.shape[0], merge=merge):
    ...         highest = ntl.maximum(highest, x[i])
    ...     y = highest
    >>> run(application, torch.tensor([1.0, 2.0, 4.0]), torch.empty(1))
    tensor([4.])
    """

def static_range(start: int, end: int | None = None, step: int | None = None) -> Iterable[int]:
    """Count in a `for` loop that is unrolled: the variable is known when compiling.

    Raises `ApplicationError` for bounds that are not, and where it is not the iterator of a `for` loop.

    >>> def application(x, y):
    ...     y = x
    ...     for i in ntl.static_range(3):
    ...         y = y * x if i % 2 else y + x
    >>> run(application, torch.tensor([1.0, 2.0]), torch.empty(2))
    tensor([ 3., 10.])
    """

def program_id(axis: int) -> Tile:
    """Return the number of this program: row-major over the outermost level for axis 0, and 0 for axes 1 and 2.

    An arrangement tells each program its tiles, so that few kernels need it. Raises `ApplicationError` for other axes.

    >>> def application(x, y):
    ...     y = x + ntl.program_id(0)
    >>> run(application, torch.tensor([1.0]), torch.empty(1))
    tensor([1.])
    """

def num_programs(axis: int) -> Tile:
    """Return how many programs there are, for axis 0; 1 for axes 1 and 2. Raises `ApplicationError` for other axes.

    >>> def application(x, y):
    ...     y = x / ntl.num_programs(0)
    >>> run(application, torch.tensor([1.0]), torch.empty(1))
    tensor([1.])
    """

def static_print(*values: Any) -> None:
    """Print when compiling what is known then, such as a shape.

    >>> def application(x, y):
    ...     ntl.static_print("shape", x.shape)
    ...     y = x
    >>> _ = run(application, torch.ones(3), torch.empty(3))
    shape (3,)
    """

def static_assert(cond: TileLike, msg: str = "") -> None:
    """Raise `ApplicationError` with `msg` when compiling, unless `cond` holds; it must be known then.

    >>> def application(x, y):
    ...     ntl.static_assert(x.dtype == ntl.float32, "float32 alone")
    ...     y = x
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """

def device_print(prefix: str, *args: Any) -> None:
    """Print at run time: a text, then tiles. Python's `print` is the same.

    On a CPU each program prints its whole tile, one program after the other; on a GPU each thread prints its elements.

    >>> def application(x, y):
    ...     ntl.device_print("x is", x)
    ...     y = x
    >>> _ = run(application, torch.arange(3.0), torch.empty(3))
    x is tensor([0., 1., 2.])
    """

def device_assert(cond: TileLike, msg: str = "") -> None:
    """Stop with `msg` unless `cond` holds in every element; those past the end of a tile are left out.

    Python's `assert` is the same. On a CPU it raises `ExecutionError`, which names the program and the line.

    >>> def application(x, y):
    ...     ntl.device_assert(x >= 0, "a square root of a negative number")
    ...     y = ntl.sqrt(x)
    >>> run(application, torch.tensor([4.0]), torch.empty(1))
    tensor([2.])
    """

def debug_barrier() -> None:
    """Let all threads of a program wait for each other. On a CPU it does nothing.

    >>> def application(x, y):
    ...     y = x
    ...     ntl.debug_barrier()
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """

def assume(cond: TileLike) -> None:
    """Accept a fact that Triton's compiler would use, without effect: this compiler proves what it needs.

    >>> def application(x, y):
    ...     ntl.assume(x.shape[0] > 0)
    ...     y = x
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """

def condition(arg1: TileLike, disable_licm: bool = False) -> Tile:
    """Return the condition of a `while` loop as it is. Triton's option has no effect.

    >>> def application(x, y):
    ...     total = ntl.sum(x)
    ...     while ntl.condition(total > 1):
    ...         total = total / 2
    ...     y = total
    >>> run(application, torch.tensor([5.0, 7.0]), torch.empty(1))
    tensor([0.7500])
    """

def max_constancy(input: TileLike, values: Any) -> Tile:
    """Return `input`. The hint that runs of `values` elements are equal has no effect.

    >>> def application(x, y):
    ...     y = ntl.max_constancy(x, 4)
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """

def max_contiguous(input: TileLike, values: Any) -> Tile:
    """Return `input`. The hint that runs of `values` elements are contiguous has no effect.

    >>> def application(x, y):
    ...     y = ntl.max_contiguous(x, 4)
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """

def multiple_of(input: TileLike, values: Any) -> Tile:
    """Return `input`. The hint that elements are multiples of `values` has no effect.

    >>> def application(x, y):
    ...     y = ntl.multiple_of(x, 16)
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """

def expect_zero(x: TileLike, mask: TileLike) -> Tile:
    """Return `x`. The hint that it is 0 where `mask` is set has no effect.

    >>> def application(x, y):
    ...     y = ntl.expect_zero(x, x == 0)
    >>> run(application, torch.ones(3), torch.empty(3))
    tensor([1., 1., 1.])
    """

def map_elementwise(scalar_fn: Callable[..., Any], *args: TileLike) -> Any:
    """Call a function on the elements of tiles, which broadcast. It may branch on each; both branches are computed.

    scalar_fn: takes a number for each tile, and returns one, or several as a tuple. It may only compute.
    Raises `ApplicationError` where it loads, stores, prints, asserts, loops or reduces. Triton's `pack` is always 1.

    >>> def selu(value, alpha):
    ...     if value < 0:
    ...         value = alpha * (ntl.exp(value) - 1)
    ...     return value
    >>> def application(x, y):
    ...     y = ntl.map_elementwise(selu, x, 2.0)
    >>> run(application, torch.tensor([1.0, 0.0, -1.0]), torch.empty(3))
    tensor([ 1.0000,  0.0000, -1.2642])
    """

def inline_asm_elementwise(
    asm: str, constraints: str, args: Any, dtype: DTypeLike | tuple[DTypeLike, ...], is_pure: bool, pack: int
) -> Any:
    """Run PTX on the elements of tiles, `pack` of them at a time, as Triton's function of this name does.

    args: tiles, which broadcast. dtype: that of the result, or a tuple of several, for as many results.
    On a GPU alone: on CPU tensors it is an `UnsupportedError`.

    >>> def application(x, y):
    ...     y = ntl.inline_asm_elementwise("abs.f32 $0, $1;", "=f,f", [x], ntl.float32, True, 1)
    >>> x, y = torch.ones(4), torch.empty(4)
    >>> "abs.f32" in str(kernel_of(application, x, y).source(x, y, gpu="h100"))
    True
    """

class libdevice:
    @staticmethod
    def abs(x: TileLike, /) -> Tile:
        """Return the absolute value of x, element by element."""

    @staticmethod
    def acos(x: TileLike, /) -> Tile:
        """Return the arc cosine of x, an angle in [0, pi], element by element."""

    @staticmethod
    def acosh(x: TileLike, /) -> Tile:
        """Return the inverse hyperbolic cosine of x, element by element."""

    @staticmethod
    def asin(x: TileLike, /) -> Tile:
        """Return the arc sine of x, an angle in [-pi / 2, pi / 2], element by element."""

    @staticmethod
    def asinh(x: TileLike, /) -> Tile:
        """Return the inverse hyperbolic sine of x, element by element."""

    @staticmethod
    def atan(x: TileLike, /) -> Tile:
        """Return the arc tangent of x, an angle in [-pi / 2, pi / 2], element by element."""

    @staticmethod
    def atanh(x: TileLike, /) -> Tile:
        """Return the inverse hyperbolic tangent of x, element by element."""

    @staticmethod
    def ceil(x: TileLike, /) -> Tile:
        """Return x, rounded up to a whole number, element by element."""

    @staticmethod
    def cos(x: TileLike, /) -> Tile:
        """Return the cosine of x, element by element."""

    @staticmethod
    def cosh(x: TileLike, /) -> Tile:
        """Return the hyperbolic cosine of x, element by element."""

    @staticmethod
    def erf(x: TileLike, /) -> Tile:
        """Return the error function of x, element by element."""

    @staticmethod
    def erfc(x: TileLike, /) -> Tile:
        """Return 1 - erf(x), without its cancellation, element by element."""

    @staticmethod
    def erfinv(x: TileLike, /) -> Tile:
        """Return the y with erf(y) = x, element by element."""

    @staticmethod
    def exp(x: TileLike, /) -> Tile:
        """Return e to the power of x, element by element."""

    @staticmethod
    def exp2(x: TileLike, /) -> Tile:
        """Return 2 to the power of x, element by element."""

    @staticmethod
    def expm1(x: TileLike, /) -> Tile:
        """Return exp(x) - 1, precise near 0, element by element."""

    @staticmethod
    def floor(x: TileLike, /) -> Tile:
        """Return x, rounded down to a whole number, element by element."""

    @staticmethod
    def j0(x: TileLike, /) -> Tile:
        """Return the Bessel function of the first kind, of order 0, element by element."""

    @staticmethod
    def j1(x: TileLike, /) -> Tile:
        """Return the Bessel function of the first kind, of order 1, element by element."""

    @staticmethod
    def lgamma(x: TileLike, /) -> Tile:
        """Return the logarithm of the absolute gamma function of x, element by element."""

    @staticmethod
    def log(x: TileLike, /) -> Tile:
        """Return the natural logarithm of x, element by element."""

    @staticmethod
    def log10(x: TileLike, /) -> Tile:
        """Return the logarithm of x to base 10, element by element."""

    @staticmethod
    def log1p(x: TileLike, /) -> Tile:
        """Return log(1 + x), precise near 0, element by element."""

    @staticmethod
    def log2(x: TileLike, /) -> Tile:
        """Return the logarithm of x to base 2, element by element."""

    @staticmethod
    def nearbyint(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest whole number, to an even one halfway, element by element."""

    @staticmethod
    def rint(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest whole number, to an even one halfway, element by element."""

    @staticmethod
    def round(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest whole number, away from 0 halfway, element by element."""

    @staticmethod
    def rsqrt(x: TileLike, /) -> Tile:
        """Return 1 / sqrt(x), element by element."""

    @staticmethod
    def sin(x: TileLike, /) -> Tile:
        """Return the sine of x, element by element."""

    @staticmethod
    def sinh(x: TileLike, /) -> Tile:
        """Return the hyperbolic sine of x, element by element."""

    @staticmethod
    def sqrt(x: TileLike, /) -> Tile:
        """Return the square root of x, element by element."""

    @staticmethod
    def tan(x: TileLike, /) -> Tile:
        """Return the tangent of x, element by element."""

    @staticmethod
    def tanh(x: TileLike, /) -> Tile:
        """Return the hyperbolic tangent of x, element by element."""

    @staticmethod
    def tgamma(x: TileLike, /) -> Tile:
        """Return the gamma function of x, element by element."""

    @staticmethod
    def trunc(x: TileLike, /) -> Tile:
        """Return x without its fraction, element by element."""

    @staticmethod
    def cbrt(x: TileLike, /) -> Tile:
        """Return the cube root of x, element by element."""

    @staticmethod
    def rcbrt(x: TileLike, /) -> Tile:
        """Return 1 / cbrt(x), element by element."""

    @staticmethod
    def cospi(x: TileLike, /) -> Tile:
        """Return cos(pi * x), exact where x is a multiple of 1/2, element by element."""

    @staticmethod
    def sinpi(x: TileLike, /) -> Tile:
        """Return sin(pi * x), exact where x is a multiple of 1/2, element by element."""

    @staticmethod
    def exp10(x: TileLike, /) -> Tile:
        """Return 10 to the power of x, element by element."""

    @staticmethod
    def cyl_bessel_i0(x: TileLike, /) -> Tile:
        """Return the modified Bessel function of the first kind, of order 0, element by element."""

    @staticmethod
    def cyl_bessel_i1(x: TileLike, /) -> Tile:
        """Return the modified Bessel function of the first kind, of order 1, element by element."""

    @staticmethod
    def y0(x: TileLike, /) -> Tile:
        """Return the Bessel function of the second kind, of order 0; NaN left of 0, element by element."""

    @staticmethod
    def y1(x: TileLike, /) -> Tile:
        """Return the Bessel function of the second kind, of order 1; NaN left of 0, element by element."""

    @staticmethod
    def erfcx(x: TileLike, /) -> Tile:
        """Return exp(x * x) * erfc(x), without overflow in between, element by element."""

    @staticmethod
    def erfcinv(x: TileLike, /) -> Tile:
        """Return the y with erfc(y) = x, element by element."""

    @staticmethod
    def normcdf(x: TileLike, /) -> Tile:
        """Return the probability that a normal variable is less than x, element by element."""

    @staticmethod
    def normcdfinv(x: TileLike, /) -> Tile:
        """Return the y with normcdf(y) = x, element by element."""

    @staticmethod
    def logb(x: TileLike, /) -> Tile:
        """Return the exponent of x in base 2, as a float; -inf of 0, element by element."""

    @staticmethod
    def atan2(x: TileLike, y: TileLike, /) -> Tile:
        """Return the angle of the point (y, x), in [-pi, pi], element by element."""

    @staticmethod
    def copysign(x: TileLike, y: TileLike, /) -> Tile:
        """Return x with the sign of y, element by element."""

    @staticmethod
    def div_rn(x: TileLike, y: TileLike, /) -> Tile:
        """Return x / y, rounded to the nearest number, element by element."""

    @staticmethod
    def fmod(x: TileLike, y: TileLike, /) -> Tile:
        """Return the remainder of x / y, with the sign of x, element by element."""

    @staticmethod
    def hypot(x: TileLike, y: TileLike, /) -> Tile:
        """Return sqrt(x * x + y * y), without overflow in between, element by element."""

    @staticmethod
    def pow(x: TileLike, y: TileLike, /) -> Tile:
        """Return x to the power of y, element by element."""

    @staticmethod
    def fdim(x: TileLike, y: TileLike, /) -> Tile:
        """Return x - y where that is positive, else 0, element by element."""

    @staticmethod
    def nextafter(x: TileLike, y: TileLike, /) -> Tile:
        """Return the float next to x towards y, element by element."""

    @staticmethod
    def remainder(x: TileLike, y: TileLike, /) -> Tile:
        """Return x - n * y, where n is the whole number nearest to x / y, an even one halfway, element by element."""

    @staticmethod
    def rhypot(x: TileLike, y: TileLike, /) -> Tile:
        """Return 1 / hypot(x, y), element by element."""

    @staticmethod
    def fma(x: TileLike, y: TileLike, z: TileLike, /) -> Tile:
        """Return x * y + z, rounded once, element by element."""

    @staticmethod
    def norm3d(x: TileLike, y: TileLike, z: TileLike, /) -> Tile:
        """Return sqrt(x * x + y * y + z * z), without overflow in between, element by element."""

    @staticmethod
    def rnorm3d(x: TileLike, y: TileLike, z: TileLike, /) -> Tile:
        """Return 1 / norm3d(x, y, z), element by element."""

    @staticmethod
    def norm4d(x: TileLike, y: TileLike, z: TileLike, w: TileLike, /) -> Tile:
        """Return sqrt(x * x + y * y + z * z + w * w), without overflow in between, element by element."""

    @staticmethod
    def rnorm4d(x: TileLike, y: TileLike, z: TileLike, w: TileLike, /) -> Tile:
        """Return 1 / norm4d(x, y, z, w), element by element."""

    @staticmethod
    def isinf(x: TileLike, /) -> Tile:
        """Return whether x is inf or -inf, element by element."""

    @staticmethod
    def isnan(x: TileLike, /) -> Tile:
        """Return whether x is NaN, element by element."""

    @staticmethod
    def signbit(x: TileLike, /) -> Tile:
        """Return whether the sign of x is negative, that of -0.0, too, element by element."""

    @staticmethod
    def finitef(x: TileLike, /) -> Tile:
        """Return whether x is neither infinite nor NaN, element by element."""

    @staticmethod
    def isfinited(x: TileLike, /) -> Tile:
        """Return whether x is neither infinite nor NaN, element by element."""

    @staticmethod
    def rsqrt_rn(x: TileLike, /) -> Tile:
        """Return 1 / sqrt(x), rounded to the nearest number, element by element."""

    @staticmethod
    def saturatef(x: TileLike, /) -> Tile:
        """Return x, brought into [0, 1]; 0 of NaN, element by element."""

    @staticmethod
    def fast_expf(x: TileLike, /) -> Tile:
        """Return e to the power of x, fast on a GPU, less precise, element by element."""

    @staticmethod
    def fast_logf(x: TileLike, /) -> Tile:
        """Return the natural logarithm of x, fast on a GPU, less precise, element by element."""

    @staticmethod
    def fast_tanhf(x: TileLike, /) -> Tile:
        """Return the hyperbolic tangent of x, fast on a GPU, less precise, element by element."""

    @staticmethod
    def fast_cosf(x: TileLike, /) -> Tile:
        """Return the cosine of x, fast on a GPU, less precise, element by element."""

    @staticmethod
    def fast_exp10f(x: TileLike, /) -> Tile:
        """Return 10 to the power of x, fast on a GPU, less precise, element by element."""

    @staticmethod
    def fast_log10f(x: TileLike, /) -> Tile:
        """Return the logarithm of x to base 10, fast on a GPU, less precise, element by element."""

    @staticmethod
    def fast_log2f(x: TileLike, /) -> Tile:
        """Return the logarithm of x to base 2, fast on a GPU, less precise, element by element."""

    @staticmethod
    def fast_sinf(x: TileLike, /) -> Tile:
        """Return the sine of x, fast on a GPU, less precise, element by element."""

    @staticmethod
    def fast_tanf(x: TileLike, /) -> Tile:
        """Return the tangent of x, fast on a GPU, less precise, element by element."""

    @staticmethod
    def fast_dividef(x: TileLike, y: TileLike, /) -> Tile:
        """Return x / y, fast on a GPU, less precise, element by element."""

    @staticmethod
    def fast_powf(x: TileLike, y: TileLike, /) -> Tile:
        """Return 2 to the power of y * log2(x): NaN of a negative x, element by element."""

    @staticmethod
    def ldexp(x: TileLike, n: TileLike, /) -> Tile:
        """Return x * 2 to the power of n, rounded once, element by element."""

    @staticmethod
    def scalbn(x: TileLike, n: TileLike, /) -> Tile:
        """Return x * 2 to the power of n, rounded once, element by element."""

    @staticmethod
    def ilogb(x: TileLike, /) -> Tile:
        """Return the exponent of x in base 2; the least int32 of 0 and NaN, the greatest of an infinity, element by
        element."""

    @staticmethod
    def llrint(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest integer, to an even one halfway, element by element."""

    @staticmethod
    def llround(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest integer, away from 0 halfway, element by element."""

    @staticmethod
    def clz(x: TileLike, /) -> Tile:
        """Return how many bits above the highest that is set are 0, element by element."""

    @staticmethod
    def ffs(x: TileLike, /) -> Tile:
        """Return the place of the lowest bit that is set, counted from 1; 0 of 0, element by element."""

    @staticmethod
    def popc(x: TileLike, /) -> Tile:
        """Return how many bits are set, element by element."""

    @staticmethod
    def brev(x: TileLike, /) -> Tile:
        """Return x with its bits in reverse order, element by element."""

    @staticmethod
    def mulhi(x: TileLike, y: TileLike, /) -> Tile:
        """Return the upper half of the bits of x * y, element by element."""

    @staticmethod
    def hadd(x: TileLike, y: TileLike, /) -> Tile:
        """Return (x + y) / 2 without overflow, rounded down, element by element."""

    @staticmethod
    def mul24(x: TileLike, y: TileLike, /) -> Tile:
        """Return the lower 32 bits of the product of the lower 24 bits of x and y, element by element."""

    @staticmethod
    def rhadd(x: TileLike, y: TileLike, /) -> Tile:
        """Return (x + y) / 2 without overflow, rounded up, element by element."""

    @staticmethod
    def byte_perm(x: TileLike, y: TileLike, selector: TileLike, /) -> Tile:
        """Return the bytes of y and x (from 0, the lowest of x) that four digits of the selector name, element by
        element."""

    @staticmethod
    def sad(x: TileLike, y: TileLike, z: TileLike, /) -> Tile:
        """Return abs(x - y) + z, element by element."""

    @staticmethod
    def int_as_float(x: TileLike, /) -> Tile:
        """Return the float whose bits x is, element by element."""

    @staticmethod
    def uint_as_float(x: TileLike, /) -> Tile:
        """Return the float whose bits x is, element by element."""

    @staticmethod
    def float_as_int(x: TileLike, /) -> Tile:
        """Return the bits of x, element by element."""

    @staticmethod
    def float_as_uint(x: TileLike, /) -> Tile:
        """Return the bits of x, element by element."""

    @staticmethod
    def longlong_as_double(x: TileLike, /) -> Tile:
        """Return the float whose bits x is, element by element."""

    @staticmethod
    def double_as_longlong(x: TileLike, /) -> Tile:
        """Return the bits of x, element by element."""

    @staticmethod
    def double2hiint(x: TileLike, /) -> Tile:
        """Return the upper 32 bits of x, element by element."""

    @staticmethod
    def double2loint(x: TileLike, /) -> Tile:
        """Return the lower 32 bits of x, element by element."""

    @staticmethod
    def int2double_rn(x: TileLike, /) -> Tile:
        """Return x as a float, element by element."""

    @staticmethod
    def uint2double_rn(x: TileLike, /) -> Tile:
        """Return x as a float, element by element."""

    @staticmethod
    def hiloint2double(high: TileLike, low: TileLike, /) -> Tile:
        """Return the float of these upper and lower 32 bits, element by element."""

    @staticmethod
    def add_rn(x: TileLike, y: TileLike, /) -> Tile:
        """Return x + y, rounded to the nearest number, to an even one halfway, element by element."""

    @staticmethod
    def add_rz(x: TileLike, y: TileLike, /) -> Tile:
        """Return x + y, rounded towards 0 to a number, element by element."""

    @staticmethod
    def add_rd(x: TileLike, y: TileLike, /) -> Tile:
        """Return x + y, rounded down to a number, element by element."""

    @staticmethod
    def add_ru(x: TileLike, y: TileLike, /) -> Tile:
        """Return x + y, rounded up to a number, element by element."""

    @staticmethod
    def div_rz(x: TileLike, y: TileLike, /) -> Tile:
        """Return x / y, rounded towards 0 to a number, element by element."""

    @staticmethod
    def div_rd(x: TileLike, y: TileLike, /) -> Tile:
        """Return x / y, rounded down to a number, element by element."""

    @staticmethod
    def div_ru(x: TileLike, y: TileLike, /) -> Tile:
        """Return x / y, rounded up to a number, element by element."""

    @staticmethod
    def mul_rn(x: TileLike, y: TileLike, /) -> Tile:
        """Return x * y, rounded to the nearest number, to an even one halfway, element by element."""

    @staticmethod
    def mul_rz(x: TileLike, y: TileLike, /) -> Tile:
        """Return x * y, rounded towards 0 to a number, element by element."""

    @staticmethod
    def mul_rd(x: TileLike, y: TileLike, /) -> Tile:
        """Return x * y, rounded down to a number, element by element."""

    @staticmethod
    def mul_ru(x: TileLike, y: TileLike, /) -> Tile:
        """Return x * y, rounded up to a number, element by element."""

    @staticmethod
    def sub_rn(x: TileLike, y: TileLike, /) -> Tile:
        """Return x - y, rounded to the nearest number, to an even one halfway, element by element."""

    @staticmethod
    def sub_rz(x: TileLike, y: TileLike, /) -> Tile:
        """Return x - y, rounded towards 0 to a number, element by element."""

    @staticmethod
    def sub_rd(x: TileLike, y: TileLike, /) -> Tile:
        """Return x - y, rounded down to a number, element by element."""

    @staticmethod
    def sub_ru(x: TileLike, y: TileLike, /) -> Tile:
        """Return x - y, rounded up to a number, element by element."""

    @staticmethod
    def fma_rn(x: TileLike, y: TileLike, z: TileLike, /) -> Tile:
        """Return x * y + z, rounded to the nearest number, to an even one halfway, element by element."""

    @staticmethod
    def fma_rz(x: TileLike, y: TileLike, z: TileLike, /) -> Tile:
        """Return x * y + z, rounded towards 0 to a number, element by element."""

    @staticmethod
    def fma_rd(x: TileLike, y: TileLike, z: TileLike, /) -> Tile:
        """Return x * y + z, rounded down to a number, element by element."""

    @staticmethod
    def fma_ru(x: TileLike, y: TileLike, z: TileLike, /) -> Tile:
        """Return x * y + z, rounded up to a number, element by element."""

    @staticmethod
    def rcp_rn(x: TileLike, /) -> Tile:
        """Return 1 / x, rounded to the nearest number, to an even one halfway, element by element."""

    @staticmethod
    def rcp_rz(x: TileLike, /) -> Tile:
        """Return 1 / x, rounded towards 0 to a number, element by element."""

    @staticmethod
    def rcp_rd(x: TileLike, /) -> Tile:
        """Return 1 / x, rounded down to a number, element by element."""

    @staticmethod
    def rcp_ru(x: TileLike, /) -> Tile:
        """Return 1 / x, rounded up to a number, element by element."""

    @staticmethod
    def sqrt_rn(x: TileLike, /) -> Tile:
        """Return the square root of x, rounded to the nearest number, to an even one halfway, element by element."""

    @staticmethod
    def sqrt_rz(x: TileLike, /) -> Tile:
        """Return the square root of x, rounded towards 0 to a number, element by element."""

    @staticmethod
    def sqrt_rd(x: TileLike, /) -> Tile:
        """Return the square root of x, rounded down to a number, element by element."""

    @staticmethod
    def sqrt_ru(x: TileLike, /) -> Tile:
        """Return the square root of x, rounded up to a number, element by element."""

    @staticmethod
    def double2float_rn(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest number, to an even one halfway, element by element."""

    @staticmethod
    def double2float_rz(x: TileLike, /) -> Tile:
        """Return x, rounded towards 0 to a number, element by element."""

    @staticmethod
    def double2float_rd(x: TileLike, /) -> Tile:
        """Return x, rounded down to a number, element by element."""

    @staticmethod
    def double2float_ru(x: TileLike, /) -> Tile:
        """Return x, rounded up to a number, element by element."""

    @staticmethod
    def double2int_rn(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest integer, to an even one halfway; what is beyond the type is its greatest,
        or its least, number, element by element."""

    @staticmethod
    def double2int_rz(x: TileLike, /) -> Tile:
        """Return x, rounded towards 0 to a integer; what is beyond the type is its greatest, or its least, number,
        element by element."""

    @staticmethod
    def double2int_rd(x: TileLike, /) -> Tile:
        """Return x, rounded down to a integer; what is beyond the type is its greatest, or its least, number, element
        by element."""

    @staticmethod
    def double2int_ru(x: TileLike, /) -> Tile:
        """Return x, rounded up to a integer; what is beyond the type is its greatest, or its least, number, element by
        element."""

    @staticmethod
    def double2ll_rn(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest integer, to an even one halfway; what is beyond the type is its greatest,
        or its least, number, element by element."""

    @staticmethod
    def double2ll_rz(x: TileLike, /) -> Tile:
        """Return x, rounded towards 0 to a integer; what is beyond the type is its greatest, or its least, number,
        element by element."""

    @staticmethod
    def double2ll_rd(x: TileLike, /) -> Tile:
        """Return x, rounded down to a integer; what is beyond the type is its greatest, or its least, number, element
        by element."""

    @staticmethod
    def double2ll_ru(x: TileLike, /) -> Tile:
        """Return x, rounded up to a integer; what is beyond the type is its greatest, or its least, number, element by
        element."""

    @staticmethod
    def double2uint_rn(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest integer, to an even one halfway; what is beyond the type is its greatest,
        or its least, number, element by element."""

    @staticmethod
    def double2uint_rz(x: TileLike, /) -> Tile:
        """Return x, rounded towards 0 to a integer; what is beyond the type is its greatest, or its least, number,
        element by element."""

    @staticmethod
    def double2uint_rd(x: TileLike, /) -> Tile:
        """Return x, rounded down to a integer; what is beyond the type is its greatest, or its least, number, element
        by element."""

    @staticmethod
    def double2uint_ru(x: TileLike, /) -> Tile:
        """Return x, rounded up to a integer; what is beyond the type is its greatest, or its least, number, element by
        element."""

    @staticmethod
    def double2ull_rn(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest integer, to an even one halfway; what is beyond the type is its greatest,
        or its least, number, element by element."""

    @staticmethod
    def double2ull_rz(x: TileLike, /) -> Tile:
        """Return x, rounded towards 0 to a integer; what is beyond the type is its greatest, or its least, number,
        element by element."""

    @staticmethod
    def double2ull_rd(x: TileLike, /) -> Tile:
        """Return x, rounded down to a integer; what is beyond the type is its greatest, or its least, number, element
        by element."""

    @staticmethod
    def double2ull_ru(x: TileLike, /) -> Tile:
        """Return x, rounded up to a integer; what is beyond the type is its greatest, or its least, number, element by
        element."""

    @staticmethod
    def float2int_rn(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest integer, to an even one halfway; what is beyond the type is its greatest,
        or its least, number, element by element."""

    @staticmethod
    def float2int_rz(x: TileLike, /) -> Tile:
        """Return x, rounded towards 0 to a integer; what is beyond the type is its greatest, or its least, number,
        element by element."""

    @staticmethod
    def float2int_rd(x: TileLike, /) -> Tile:
        """Return x, rounded down to a integer; what is beyond the type is its greatest, or its least, number, element
        by element."""

    @staticmethod
    def float2int_ru(x: TileLike, /) -> Tile:
        """Return x, rounded up to a integer; what is beyond the type is its greatest, or its least, number, element by
        element."""

    @staticmethod
    def float2ll_rn(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest integer, to an even one halfway; what is beyond the type is its greatest,
        or its least, number, element by element."""

    @staticmethod
    def float2ll_rz(x: TileLike, /) -> Tile:
        """Return x, rounded towards 0 to a integer; what is beyond the type is its greatest, or its least, number,
        element by element."""

    @staticmethod
    def float2ll_rd(x: TileLike, /) -> Tile:
        """Return x, rounded down to a integer; what is beyond the type is its greatest, or its least, number, element
        by element."""

    @staticmethod
    def float2ll_ru(x: TileLike, /) -> Tile:
        """Return x, rounded up to a integer; what is beyond the type is its greatest, or its least, number, element by
        element."""

    @staticmethod
    def float2uint_rn(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest integer, to an even one halfway; what is beyond the type is its greatest,
        or its least, number, element by element."""

    @staticmethod
    def float2uint_rz(x: TileLike, /) -> Tile:
        """Return x, rounded towards 0 to a integer; what is beyond the type is its greatest, or its least, number,
        element by element."""

    @staticmethod
    def float2uint_rd(x: TileLike, /) -> Tile:
        """Return x, rounded down to a integer; what is beyond the type is its greatest, or its least, number, element
        by element."""

    @staticmethod
    def float2uint_ru(x: TileLike, /) -> Tile:
        """Return x, rounded up to a integer; what is beyond the type is its greatest, or its least, number, element by
        element."""

    @staticmethod
    def float2ull_rn(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest integer, to an even one halfway; what is beyond the type is its greatest,
        or its least, number, element by element."""

    @staticmethod
    def float2ull_rz(x: TileLike, /) -> Tile:
        """Return x, rounded towards 0 to a integer; what is beyond the type is its greatest, or its least, number,
        element by element."""

    @staticmethod
    def float2ull_rd(x: TileLike, /) -> Tile:
        """Return x, rounded down to a integer; what is beyond the type is its greatest, or its least, number, element
        by element."""

    @staticmethod
    def float2ull_ru(x: TileLike, /) -> Tile:
        """Return x, rounded up to a integer; what is beyond the type is its greatest, or its least, number, element by
        element."""

    @staticmethod
    def int2float_rn(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest number, to an even one halfway, element by element."""

    @staticmethod
    def int2float_rz(x: TileLike, /) -> Tile:
        """Return x, rounded towards 0 to a number, element by element."""

    @staticmethod
    def int2float_rd(x: TileLike, /) -> Tile:
        """Return x, rounded down to a number, element by element."""

    @staticmethod
    def int2float_ru(x: TileLike, /) -> Tile:
        """Return x, rounded up to a number, element by element."""

    @staticmethod
    def ll2double_rn(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest number, to an even one halfway, element by element."""

    @staticmethod
    def ll2double_rz(x: TileLike, /) -> Tile:
        """Return x, rounded towards 0 to a number, element by element."""

    @staticmethod
    def ll2double_rd(x: TileLike, /) -> Tile:
        """Return x, rounded down to a number, element by element."""

    @staticmethod
    def ll2double_ru(x: TileLike, /) -> Tile:
        """Return x, rounded up to a number, element by element."""

    @staticmethod
    def ll2float_rn(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest number, to an even one halfway, element by element."""

    @staticmethod
    def ll2float_rz(x: TileLike, /) -> Tile:
        """Return x, rounded towards 0 to a number, element by element."""

    @staticmethod
    def ll2float_rd(x: TileLike, /) -> Tile:
        """Return x, rounded down to a number, element by element."""

    @staticmethod
    def ll2float_ru(x: TileLike, /) -> Tile:
        """Return x, rounded up to a number, element by element."""

    @staticmethod
    def uint2float_rn(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest number, to an even one halfway, element by element."""

    @staticmethod
    def uint2float_rz(x: TileLike, /) -> Tile:
        """Return x, rounded towards 0 to a number, element by element."""

    @staticmethod
    def uint2float_rd(x: TileLike, /) -> Tile:
        """Return x, rounded down to a number, element by element."""

    @staticmethod
    def uint2float_ru(x: TileLike, /) -> Tile:
        """Return x, rounded up to a number, element by element."""

    @staticmethod
    def ull2double_rn(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest number, to an even one halfway, element by element."""

    @staticmethod
    def ull2double_rz(x: TileLike, /) -> Tile:
        """Return x, rounded towards 0 to a number, element by element."""

    @staticmethod
    def ull2double_rd(x: TileLike, /) -> Tile:
        """Return x, rounded down to a number, element by element."""

    @staticmethod
    def ull2double_ru(x: TileLike, /) -> Tile:
        """Return x, rounded up to a number, element by element."""

    @staticmethod
    def ull2float_rn(x: TileLike, /) -> Tile:
        """Return x, rounded to the nearest number, to an even one halfway, element by element."""

    @staticmethod
    def ull2float_rz(x: TileLike, /) -> Tile:
        """Return x, rounded towards 0 to a number, element by element."""

    @staticmethod
    def ull2float_rd(x: TileLike, /) -> Tile:
        """Return x, rounded down to a number, element by element."""

    @staticmethod
    def ull2float_ru(x: TileLike, /) -> Tile:
        """Return x, rounded up to a number, element by element."""

class math:
    @staticmethod
    def abs(x: TileLike) -> Tile:
        """Return the absolute value of each element, in the type of `x`. Python's `abs` is the same."""

    @staticmethod
    def ceil(x: TileLike) -> Tile:
        """Round each element up to a whole number. Types are those of `exp`."""

    @staticmethod
    def cos(x: TileLike) -> Tile:
        """Return the cosine of each element, an angle in radians. Types are those of `exp`."""

    @staticmethod
    def div_rn(x: TileLike, y: TileLike) -> Tile:
        """Return `x / y`, rounded to the nearest number. Shapes and errors are those of `add`, types those of `exp`."""

    @staticmethod
    def erf(x: TileLike) -> Tile:
        """Return the error function of each element. Types are those of `exp`."""

    @staticmethod
    def exp(x: TileLike) -> Tile:
        """Raise e to the power of each element."""

    @staticmethod
    def exp2(x: TileLike) -> Tile:
        """Raise 2 to the power of each element. Types are those of `exp`."""

    @staticmethod
    def fdiv(x: TileLike, y: TileLike, ieee_rounding: bool = False) -> Tile:
        """Return `x / y`: integers and halves give float32. Shapes and errors are those of `add`."""

    @staticmethod
    def floor(x: TileLike) -> Tile:
        """Round each element down to a whole number. Types are those of `exp`."""

    @staticmethod
    def fma(x: TileLike, y: TileLike, z: TileLike) -> Tile:
        """Return `x * y + z`, rounded once. Shapes and errors are those of `add`, types those of `exp`."""

    @staticmethod
    def log(x: TileLike) -> Tile:
        """Return the natural logarithm of each element; -inf of 0, NaN of a negative number. Types are those of `exp`."""

    @staticmethod
    def log2(x: TileLike) -> Tile:
        """Return the logarithm to base 2 of each element; -inf of 0, NaN of a negative number. Types are those of
        `exp`."""

    @staticmethod
    def rsqrt(x: TileLike) -> Tile:
        """Return 1 / sqrt(x) of each element; inf of 0. Types are those of `exp`."""

    @staticmethod
    def sin(x: TileLike) -> Tile:
        """Return the sine of each element, an angle in radians. Types are those of `exp`."""

    @staticmethod
    def sqrt(x: TileLike) -> Tile:
        """Return the square root of each element, NaN of a negative number; on a GPU a fast approximation in float32."""

    @staticmethod
    def sqrt_rn(x: TileLike) -> Tile:
        """Return the square root of each element, rounded to the nearest number. Types are those of `exp`."""

    @staticmethod
    def umulhi(x: TileLike, y: TileLike) -> Tile:
        """Return the upper half of the bits of `x * y`, for integers of 32 or 64 bits. Shapes broadcast."""

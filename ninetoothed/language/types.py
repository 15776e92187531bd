"""The static types of an application's values, for annotations and editors, and the markers that users import.

Nothing here is ever instantiated: an application is read, not run, and its values are the frontend's.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from ninetoothed.dtypes import DType

if TYPE_CHECKING:
    import torch


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


class Named(Protocol):
    """An element type by its name, such as one of `triton.language`."""

    @property
    def name(self) -> str: ...


TileLike: TypeAlias = Tile | float
DTypeLike: TypeAlias = "DType | torch.dtype | type[float] | type[int] | Named"
Shape: TypeAlias = "int | Tile | tuple[int | Tile, ...] | list[int | Tile]"
# Whether a NaN among the operands of `maximum`, `minimum` and `clamp` is the result.
Nan: TypeAlias = 'PropagateNan | Literal["all", "none"] | None'

TRITON_MAX_TENSOR_NUMEL: int = 2**20  # The most elements of a tile.


class PropagateNan(enum.Enum):
    """Choose whether `maximum`, `minimum` and `clamp` give NaN for an operand that is NaN."""

    NONE = 0
    ALL = 0xFFFF


class constexpr:
    """Marks an annotation as known when compiling (`p: ntl.constexpr = "ieee"`); calling it returns its argument."""

    def __new__(cls, value: Any = None) -> Any:
        return value

"""Define `Tensor`: the user's handle onto a frozen arrangement."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, overload

from ninetoothed.arrangement import metaops, sources
from ninetoothed.arrangement.boundary import tells_mistakes
from ninetoothed.arrangement.handle import Handle, Loop, OneSize, Sizes
from ninetoothed.arrangement.numbers import elements, with_numbers
from ninetoothed.arrangement.operands import one_by_one
from ninetoothed.arrangement.value import Arrangement
from ninetoothed.errors import arrangement_error as _error
from ninetoothed.wording import brief

if TYPE_CHECKING:
    import numpy

_GENERATED = "ninetoothed_tensor_"
_numbers = itertools.count()


class Tensor(Handle):
    """Stand for a tensor whose sizes are not known yet; meta-operations arrange it, and move no data.

    ndim: the number of dimensions; 0 makes a scalar argument of the kernel.
    shape: a size a dimension: an int, a `Symbol`, or None for one that the call tells, named `{name}_size_{d}`.
    dtype: advice to ahead-of-time builds; in a call the type of the argument counts.
    jagged_dim: the dimension whose size differs from one entry of a batch to the next.
    other: the number that is read out of bounds; 0 where it is not given.
    shape_options: options of `Symbol` for the sizes that the call tells, one dict or one a dimension.
    constexpr: whether a scalar is known when the kernel is compiled.
    value: the value of a scalar, which a call then need not give.
    name: the name in place of a generated one; in a kernel, its parameter's name counts.
    source: a tensor whose source this is, too, in place of `ndim` and `shape`: with its name, sizes and options.
    target_dims: the dimensions of the grid to which its own belong: these, in order. Meta-operations arrange them.
    unique_indices: whether indices that are loaded, or computed of what is, are declared to store to no element twice:
        a kernel that may store so to any other tensor gives a `RaceWarning`.

    Raises `ArrangementError` (a `ValueError`) where `ndim`, `shape` and `shape_options` disagree.

    >>> x = Tensor(shape=(4, 8), name="x").tile((2, 2))
    >>> x.shape, x.dtype.shape
    ((2, 4), (2, 2))
    """

    # Pictures are of a room below: the package sets it.
    _repr_html_: ClassVar[Callable[[Tensor], str]]

    @tells_mistakes
    def __init__(
        self,
        ndim: int | None = None,
        shape: Sizes | None = None,
        dtype: Any = None,
        jagged_dim: int | None = None,
        other: float | None = None,
        shape_options: Mapping[str, Any] | Iterable[Mapping[str, Any] | None] | None = None,
        constexpr: bool | None = None,
        value: Any = None,
        name: str | None = None,
        source: Tensor | None = None,
        target_dims: Iterable[int] | None = None,
        unique_indices: bool | None = None,
    ) -> None:
        options = {
            "ndim": ndim, "shape": shape, "dtype": dtype, "jagged_dim": jagged_dim, "other": other,
            "shape_options": shape_options, "constexpr": constexpr, "value": value, "name": name,
            "unique_indices": unique_indices,
        }  # fmt: skip
        if source is not None:
            made = sources.shared(source, options)
        else:
            made = sources.fresh(**{**options, "name": f"{_GENERATED}{next(_numbers)}" if name is None else name})
        sources.check_target_dims(made.name, target_dims, made.ndim)
        self._arrangement, self._level, self._parent = Arrangement.of(made), 0, None

    @overload
    def tile(
        self,
        tile_shape: Sizes,
        strides: Sizes | None = None,
        dilation: Sizes | None = None,
        floor_mode: bool = False,
        loop: Loop | None = None,
    ) -> Tensor: ...
    @overload
    def tile(
        self,
        *tile_shape: OneSize | None,
        strides: Sizes | None = None,
        dilation: Sizes | None = None,
        floor_mode: bool = False,
        loop: Loop | None = None,
    ) -> Tensor: ...
    @one_by_one
    @tells_mistakes
    def tile(
        self,
        tile_shape: Sizes,
        strides: Sizes | None = None,
        dilation: Sizes | None = None,
        floor_mode: bool = False,
        loop: Loop | None = None,
    ) -> Tensor:
        """Split this level into tiles: the outer level counts them, the inner one is a tile.

        Element n of tile o is at `o * stride + n * dilation`. A tile size of -1 is the whole dimension; of None it is
        one element, and the tile has no such dimension. A stride of -1 (default) is the tile size. The outer size is
        `div(size - dilation * (tile - 1) - 1, stride) + 1`, never below 0, `div` rounding up, or down with
        `floor_mode`.

        loop: dimensions along which a program has all tiles, to loop over: they are a level between. A mapping says
            how many tiles along each.

        >>> x = Tensor(shape=(6, 8), name="x")
        >>> x.tile(2, 4), x.tile(None, -1), x.tile(None, 4, loop=1)
        (Tensor(x: (3, 2), (2, 4)), Tensor(x: (6, 1), (8,)), Tensor(x: (6, 1), (2,), (4,)))
        """
        return self._then(metaops.tile, tile_shape, strides, dilation, floor_mode, loop)

    @overload
    def expand(self, shape: Sizes) -> Tensor: ...
    @overload
    def expand(self, *shape: OneSize) -> Tensor: ...
    @one_by_one
    @tells_mistakes
    def expand(self, shape: Sizes) -> Tensor:
        """Repeat dimensions of size 1; -1 keeps a size, and new dimensions come first.

        >>> Tensor(shape=(4, 1)).expand(3, -1, 5).shape
        (3, 4, 5)
        """
        return self._then(metaops.expand, shape)

    @tells_mistakes
    def unsqueeze(self, dim: int) -> Tensor:
        """Add a dimension of size 1 at `dim`.

        >>> Tensor(shape=(4, 8)).unsqueeze(1).shape
        (4, 1, 8)
        """
        return self._then(metaops.unsqueeze, dim)

    @overload
    def squeeze(self, dim: int | Iterable[int]) -> Tensor: ...
    @overload
    def squeeze(self, *dim: int) -> Tensor: ...
    @one_by_one
    @tells_mistakes
    def squeeze(self, dim: int | Iterable[int]) -> Tensor:
        """Take away the dimension or dimensions `dim`, each of size 1; an empty tuple takes away nothing.

        >>> Tensor(shape=(4, 1, 8)).squeeze(1).shape
        (4, 8)
        """
        return self._then(metaops.squeeze, dim)

    @overload
    def permute(self, dims: Iterable[int]) -> Tensor: ...
    @overload
    def permute(self, *dims: int) -> Tensor: ...
    @one_by_one
    @tells_mistakes
    def permute(self, dims: Iterable[int]) -> Tensor:
        """Reorder dimensions: dimension d of the result is dimension `dims[d]` of this level.

        >>> Tensor(shape=(4, 8, 2)).permute(2, 0, 1).shape
        (2, 4, 8)
        """
        return self._then(metaops.permute, dims)

    @tells_mistakes
    def flatten(self, start_dim: int | None = None, end_dim: int | None = None) -> Tensor:
        """Make dimensions `start_dim` to `end_dim` (exclusive) one, row-major.

        >>> Tensor(shape=(4, 8, 2)).flatten(0, 2).shape
        (32, 2)
        """
        return self._then(metaops.flatten, start_dim, end_dim)

    @tells_mistakes
    def ravel(self) -> Tensor:
        """Make this level and all within it one, the dimensions of the outermost first.

        >>> Tensor(shape=(4, 8)).tile((2, 4)).ravel().shape
        (2, 2, 2, 4)
        """
        return self._then(metaops.ravel)

    @tells_mistakes
    def pad(self, pad: Iterable[tuple[OneSize, OneSize]]) -> Tensor:
        """Add `((before, after), ...)` elements that are out of bounds, one pair a dimension.

        >>> Tensor(shape=(4, 8)).pad(((1, 1), (0, 2))).shape
        (6, 10)
        """
        return self._then(metaops.pad, pad)

    def __getitem__(self, key: Any) -> Tensor:
        """Index this level with ints, slices, None and `...`, as in NumPy.

        >>> Tensor(shape=(4, 8, 2))[1, None, ::2].shape
        (1, 4, 2)
        """
        return self._then(metaops.index, key)

    def _then(self, operation: Callable[..., Arrangement], *arguments: Any) -> Tensor:
        return Tensor.of(operation(self._arrangement, self._level, *arguments), self._level)

    @tells_mistakes
    def eval(self, subs: Mapping[Any, Any] | None = None) -> numpy.ndarray:
        """Return the flat index into the source of every element of every level, -1 out of bounds.

        `subs` is the mapping of the method of that name.

        >>> Tensor(shape=(5,)).tile((2,)).eval()
        array([[ 0,  1],
               [ 2,  3],
               [ 4, -1]])
        """
        tensor = self if subs is None else self.subs(subs)
        return elements(tensor.arrangement)

    @tells_mistakes
    def subs(self, subs: Mapping[Any, Any]) -> Tensor:
        """Return this tensor with numbers in the place of symbols.

        Keys of `subs` are symbols, names, and tensors, whose sizes are those of the value (`{"shape": (4, 8)}`).

        >>> x = Tensor(1)
        >>> x.tile("B").subs({x: {"shape": (10,)}, "B": 4}).shape
        (3,)
        """
        if not isinstance(subs, Mapping):
            raise _error(f"`subs` is given {brief(subs)}", 'give a mapping, such as {x: {"shape": (4, 8)}, "B": 2}')
        keys = {key.arrangement if isinstance(key, Tensor) else key: value for key, value in subs.items()}
        return Tensor.of(with_numbers(self._arrangement, keys), self._level)

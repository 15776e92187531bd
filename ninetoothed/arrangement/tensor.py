"""Define `Tensor`: the user's handle onto a frozen arrangement."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from ninetoothed.arrangement import metaops, sources
from ninetoothed.arrangement.boundary import tells_mistakes
from ninetoothed.arrangement.numbers import elements, with_numbers
from ninetoothed.arrangement.operands import described, shape_text
from ninetoothed.arrangement.symbol import Symbol, from_expr
from ninetoothed.arrangement.value import Arrangement, Shape, Size, SourceTensor
from ninetoothed.arrangement.without_numbers import WithoutNumbers
from ninetoothed.errors import arrangement_error as _error
from ninetoothed.expr import as_expr, const, var
from ninetoothed.wording import brief, counted

if TYPE_CHECKING:
    import numpy

# Sizes as users write them: a string is parsed to a symbol, None is left to the call, a single one is one dimension.
Sizes = int | str | Symbol | Sequence[int | str | Symbol | None]

_numbers = itertools.count()


class Tensor(WithoutNumbers):
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
    unique_indices: whether indices that are loaded, or computed of what is, are declared to store to no element twice:
        a kernel that may store so to any other tensor gives a `RaceWarning`.

    Raises `ArrangementError` (a `ValueError`) where `ndim`, `shape` and `shape_options` disagree.

    >>> x = Tensor(shape=(4, 8), name="x").tile((2, 2))
    >>> x.shape, x.dtype.shape
    ((2, 4), (2, 2))
    """

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
        unique_indices: bool = False,
    ) -> None:
        name = f"ninetoothed_tensor_{next(_numbers)}" if name is None else name
        if not isinstance(name, str) or not name.isidentifier():
            raise _error(f"a tensor cannot be named {brief(name)}", "give a Python identifier")
        sizes = sources.sizes(name, ndim, shape, shape_options)
        if sizes and (constexpr or value is not None):
            what = f"a tensor of {counted(len(sizes), 'dimension')} is constexpr or has a value"
            raise _error(what, "only a scalar, Tensor(0), may")
        if not isinstance(unique_indices, bool):
            raise _error(f"a tensor has unique_indices={brief(unique_indices)}", "give True or False")
        source = SourceTensor(
            name=name,
            sizes=sizes,
            strides=tuple(Symbol(f"{name}_stride_{dim}") for dim in range(len(sizes))),
            dtype=dtype,
            other=None if other is None else sources.number(other),
            constexpr=constexpr,
            value=value,
            jagged_dim=None if jagged_dim is None else sources.dimension("a tensor", jagged_dim, len(sizes)),
            unique_indices=unique_indices,
        )
        self._arrangement = Arrangement.of(source)
        self._level = 0
        self._parent: Tensor | None = None

    @classmethod
    def of(cls, arrangement: Arrangement, level: int = 0, parent: Tensor | None = None) -> Tensor:
        """Make a handle onto one level of an arrangement; assigning its dtype assigns that of the `parent` too."""
        tensor = object.__new__(cls)
        tensor._arrangement, tensor._level, tensor._parent = arrangement, level, parent
        return tensor

    @property
    def arrangement(self) -> Arrangement:
        """The frozen arrangement that this is a handle onto."""
        return self._arrangement

    @property
    def described(self) -> str:
        """The tensor as messages name it: `x.dtype`, of shape (2, 2)."""
        return described(self._arrangement, self._level)

    @property
    def level(self) -> int:
        """The level that this handle shows: 0 for the outermost."""
        return self._level

    @property
    def name(self) -> str:
        """The name that the tensor was made with, or a generated one."""
        return self._arrangement.source.name

    @property
    def other(self) -> Any:
        """The number that is read out of bounds; None for 0."""
        return self._arrangement.source.other

    @property
    def constexpr(self) -> bool | None:
        """Tell whether this is a scalar that is known when the kernel is compiled."""
        return self._arrangement.source.constexpr

    @property
    def value(self) -> Any:
        """The value that a scalar was given; None without one."""
        return self._arrangement.source.value

    @property
    def jagged_dim(self) -> int | None:
        """The dimension whose size differs from one entry of a batch to the next."""
        return self._arrangement.source.jagged_dim

    @property
    def source(self) -> Tensor:
        """The tensor that this one was arranged from."""
        return Tensor.of(Arrangement.of(self._arrangement.source))

    @property
    def ndim(self) -> int:
        """The number of dimensions of this level."""
        return len(self.shape)

    @property
    def shape(self) -> Shape:
        """The sizes of this level: ints and symbols. A fresh tensor's may be assigned."""
        return self._arrangement.levels[self._level]

    @shape.setter
    def shape(self, shape: Sizes) -> None:
        if self._arrangement.steps:
            raise _error(f"`{self.name}` is arranged, so its shape is fixed", "assign the shape before arranging it")
        sizes = sources.sizes(self.name, None, shape, None)
        strides = tuple(Symbol(f"{self.name}_stride_{dim}") for dim in range(len(sizes)))
        self._arrangement = Arrangement.of(replace(self._arrangement.source, sizes=sizes, strides=strides))

    @property
    def strides(self) -> Shape:
        """The distance in memory between neighbours along each dimension of this level, in elements.

        Raises `ArrangementError` where there is no such number (along a flattened dimension, say).
        """
        source = self._arrangement.source
        if not self._arrangement.steps:
            return source.strides
        names = [f"ninetoothed_index_{dim}" for dim in range(self.ndim)]
        # Inner levels are taken at their first element: a stride of this level does not depend on them.
        indices = tuple(
            tuple(var(names[dim]) if level == self._level else const(0) for dim in range(len(shape)))
            for level, shape in enumerate(self._arrangement.levels)
        )
        place, _ = metaops.index_map(self._arrangement, indices)
        offset = sum((i * as_expr(s) for i, s in zip(place, source.strides, strict=True)), start=const(0))
        linear = offset.linear(names)
        if linear is None:
            raise _error(
                f"`{self.name}`, of shape {shape_text(self.shape)}, has no strides: some neighbours are farther apart",
                "ask for the strides of `source`, or before flattening",
            )
        leaves = self._arrangement.symbols | {str(stride): stride for stride in source.strides}
        return tuple(from_expr(linear[0][name], leaves) for name in names)

    @overload
    def size(self, dim: None = None) -> Shape: ...
    @overload
    def size(self, dim: int) -> Size: ...
    @tells_mistakes
    def size(self, dim: int | None = None) -> Shape | Size:
        """Return the size of a dimension of this level, or the whole shape."""
        return self.shape if dim is None else self.shape[sources.dimension(f"`{self.name}`", dim, self.ndim)]

    @overload
    def stride(self, dim: None = None) -> Shape: ...
    @overload
    def stride(self, dim: int) -> Size: ...
    @tells_mistakes
    def stride(self, dim: int | None = None) -> Shape | Size:
        """Return the stride along a dimension of this level, or all strides."""
        return self.strides if dim is None else self.strides[sources.dimension(f"`{self.name}`", dim, self.ndim)]

    @tells_mistakes
    def numel(self) -> Size:
        """Return the number of elements of this level."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> Any:
        """The next level, a `Tensor`; of the innermost level, the type of its numbers."""
        if self._level + 1 < len(self._arrangement.levels):
            return Tensor.of(self._arrangement, self._level + 1, parent=self)
        return self._arrangement.source.dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        if isinstance(dtype, Tensor):
            joined = self._arrangement.with_inner(self._level + 1, dtype.arrangement)
            if joined is None or dtype.level != self._level + 1:
                raise _error(
                    f"the dtype of `{self.name}`, of shape {shape_text(self.shape)}, is assigned a level of"
                    f" `{dtype.name}`, of shape {shape_text(dtype.shape)}, that was not made from it",
                    "write for example `x.dtype = x.dtype.squeeze(0)`",
                )
            self._arrangement = joined
            if self._parent is not None:
                self._parent.dtype = self
        elif self._level + 1 < len(self._arrangement.levels):
            raise _error(
                f"the dtype of `{self.name}` is a tensor, not {brief(dtype)}", "assign a level rearranged from it"
            )
        else:
            self._arrangement = replace(self._arrangement, source=replace(self._arrangement.source, dtype=dtype))

    @tells_mistakes
    def tile(
        self, tile_shape: Sizes, strides: Sizes | None = None, dilation: Sizes | None = None, floor_mode: bool = False
    ) -> Tensor:
        """Split this level into tiles: the outer level counts them, the inner one is a tile.

        Element n of tile o is at `o * stride + n * dilation`. A tile size of -1 is the whole dimension; a stride of -1
        (default) is the tile size. The outer size is `div(size - dilation * (tile - 1) - 1, stride) + 1`, never below
        0, `div` rounding up, or down with `floor_mode`.

        >>> x = Tensor(shape=(5, 8)).tile((2, -1))
        >>> x.shape, x.dtype.shape
        ((3, 1), (2, 8))
        """
        return self._then(metaops.tile, tile_shape, strides, dilation, floor_mode)

    @tells_mistakes
    def expand(self, shape: Sizes) -> Tensor:
        """Repeat dimensions of size 1; -1 keeps a size, and new dimensions come first.

        >>> Tensor(shape=(4, 1)).expand((3, -1, 5)).shape
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

    @tells_mistakes
    def squeeze(self, dim: int | Iterable[int]) -> Tensor:
        """Take away the dimension or dimensions `dim`, each of size 1; an empty tuple takes away nothing.

        >>> Tensor(shape=(4, 1, 8)).squeeze(1).shape
        (4, 8)
        """
        return self._then(metaops.squeeze, dim)

    @tells_mistakes
    def permute(self, dims: Iterable[int]) -> Tensor:
        """Reorder dimensions: dimension d of the result is dimension `dims[d]` of this level.

        >>> Tensor(shape=(4, 8, 2)).permute((2, 0, 1)).shape
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
    def pad(self, padding: Iterable[tuple[int | str | Symbol, int | str | Symbol]]) -> Tensor:
        """Add `((before, after), ...)` elements that are out of bounds, one pair a dimension.

        >>> Tensor(shape=(4, 8)).pad(((1, 1), (0, 2))).shape
        (6, 10)
        """
        return self._then(metaops.pad, padding)

    def __getitem__(self, key: Any) -> Tensor:
        """Index this level with ints, slices, None and `...`, as in NumPy.

        >>> Tensor(shape=(4, 8, 2))[1, None, ::2].shape
        (1, 4, 2)
        """
        return self._then(metaops.index, key)

    def _then(self, operation: Callable[..., Arrangement], *arguments: Any) -> Tensor:
        return Tensor.of(operation(self._arrangement, self._level, *arguments), self._level)

    def __copy__(self) -> Tensor:
        return Tensor.of(self._arrangement, self._level)

    def __deepcopy__(self, memo: Any) -> Tensor:
        return Tensor.of(self._arrangement, self._level)  # an arrangement is frozen: copies share it

    def __repr__(self) -> str:
        levels = ", ".join(map(shape_text, self._arrangement.levels[self._level :]))
        return f"Tensor({self.name}: {levels})"

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
    def subs(self, mapping: Mapping[Any, Any]) -> Tensor:
        """Return this tensor with numbers in the place of symbols.

        Keys of `mapping` are symbols, names, and tensors, whose sizes are those of the value (`{"shape": (4, 8)}`).

        >>> x = Tensor(1)
        >>> x.tile((Symbol("B"),)).subs({x: {"shape": (10,)}, "B": 4}).shape
        (3,)
        """
        if not isinstance(mapping, Mapping):
            raise _error(f"`subs` is given {brief(mapping)}", 'give a mapping, such as {x: {"shape": (4, 8)}, "B": 2}')
        keys = {key.arrangement if isinstance(key, Tensor) else key: value for key, value in mapping.items()}
        return Tensor.of(with_numbers(self._arrangement, keys), self._level)

"""Define `Handle`: one level of a frozen arrangement, as users look at it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from ninetoothed.arrangement import metaops, sources
from ninetoothed.arrangement.boundary import tells_mistakes
from ninetoothed.arrangement.operands import described, shape_text
from ninetoothed.arrangement.symbol import Symbol, from_expr
from ninetoothed.arrangement.value import Arrangement, Shape, Size
from ninetoothed.arrangement.without_numbers import WithoutNumbers
from ninetoothed.errors import arrangement_error as _error
from ninetoothed.expr import const, offset, var
from ninetoothed.wording import brief

if TYPE_CHECKING:
    from typing_extensions import Self

# Sizes as users write them: a string is parsed to a symbol, None is left to the call, a single one is one dimension.
OneSize = int | str | Symbol
Sizes = OneSize | Sequence[OneSize | None]
# Dimensions of tiles to loop over: all tiles along each, or as many as a mapping says.
Loop = int | Sequence[int] | Mapping[int, OneSize]


class Handle(WithoutNumbers):
    """Show one level of an arrangement, and the levels within it as its `dtype`."""

    _arrangement: Arrangement
    _level: int
    _parent: Handle | None

    @classmethod
    def of(cls, arrangement: Arrangement, level: int = 0, parent: Handle | None = None) -> Self:
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
    def source(self) -> Self:
        """The tensor that this one was arranged from."""
        return self.of(Arrangement.of(self._arrangement.source))

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
        strides = sources.strides(self.name, len(sizes))
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
        linear = offset(place, source.strides).linear(names)
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

    @overload
    def offsets(self, dim: None = None) -> Size: ...
    @overload
    def offsets(self, dim: int) -> Size: ...
    @tells_mistakes
    def offsets(self, dim: int | None = None) -> Size:
        """Return the index along a dimension of the source of any element, or its place in memory, in elements.

        The element is named by its indices: `index_0_1` is that along dimension 1 of the outermost level. Nothing is
        clamped out of bounds.

        >>> from ninetoothed import Tensor
        >>> Tensor(shape=(10,), name="x").tile((4,)).offsets(0)
        4 * index_0_0 + index_1_0
        """
        source = self._arrangement.source
        place, _ = metaops.index_map(self._arrangement)
        along = None if dim is None else sources.dimension(f"`{source.name}`", dim, source.ndim)
        found = offset(place, source.strides) if along is None else place[along]
        return from_expr(found, self._arrangement.symbols | {str(stride): stride for stride in source.strides})

    def names(self) -> set[Symbol]:
        """Return the names that it stands for, as symbols: its pointer, sizes, strides, and what it is arranged by.

        >>> from ninetoothed import Symbol, Tensor
        >>> sorted(map(str, Tensor(1, name="x").tile((Symbol("BLOCK"),)).names()))
        ['BLOCK', 'x_pointer', 'x_size_0', 'x_stride_0']
        """
        source = self._arrangement.source
        if not source.ndim:
            return {Symbol(source.name)}
        strides = (name for stride in source.strides if isinstance(stride, Symbol) for name in stride.names())
        return {Symbol(f"{source.name}_pointer"), *self._arrangement.symbols.values(), *strides}

    def innermost(self) -> Self:
        """Return the innermost level, whose `dtype` is no tensor.

        >>> from ninetoothed import Tensor
        >>> Tensor(shape=(4, 8)).tile((2, 4)).tile((1, -1)).innermost().shape
        (2, 4)
        """
        last = len(self._arrangement.levels) - 1
        return self if self._level == last else self.of(self._arrangement, last)

    @property
    def dtype(self) -> Any:
        """The next level, a `Tensor`; of the innermost level, the type of its numbers."""
        if self._level + 1 < len(self._arrangement.levels):
            return self.of(self._arrangement, self._level + 1, parent=self)
        return self._arrangement.source.dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        if isinstance(dtype, Handle):
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

    def __copy__(self) -> Self:
        return self.of(self._arrangement, self._level)

    def __deepcopy__(self, memo: Any) -> Self:
        return self.of(self._arrangement, self._level)  # an arrangement is frozen: copies share it

    def __repr__(self) -> str:
        levels = ", ".join(map(shape_text, self._arrangement.levels[self._level :]))
        return f"Tensor({self.name}: {levels})"

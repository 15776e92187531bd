"""The values of a program, their types, and the variables that run over lanes."""

from __future__ import annotations

from dataclasses import dataclass

from ninetoothed.dtypes import DType, PointerType
from ninetoothed.expr import Expr

Element = DType | PointerType


@dataclass(frozen=True)
class TileType:
    """The type of a value; a scalar has the shape ().

    shape: the logical shape, which users see and which may be symbolic.
    lanes: the physical shape, which both backends hold: powers of two, each at least the logical extent.
    """

    dtype: Element
    shape: tuple[Expr, ...] = ()
    lanes: tuple[int, ...] = ()

    @property
    def is_scalar(self) -> bool:
        """Tell whether there is one lane, and no axis."""
        return not self.lanes

    @property
    def axes(self) -> tuple[Lane, ...]:
        """The variables of its axes."""
        return tuple(Lane.of(axis, count) for axis, count in enumerate(self.lanes))

    def with_dtype(self, dtype: Element) -> TileType:
        """Return the type of as many elements of another type."""
        return TileType(dtype, self.shape, self.lanes)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, eq=False)
class Value:
    """The result of an operation, equal only to itself; `hint` is the user's name for it, if any."""

    type: TileType
    hint: str | None = None


@dataclass(frozen=True)
class Lane:
    """A variable that runs over one axis of a tile, from 0 to `count` - 1; `count` is the physical extent."""

    name: str
    axis: int
    count: int

    @classmethod
    def of(cls, axis: int, count: int) -> Lane:
        """Return the variable of an axis. Its name contains its range, so that tiles alike share it."""
        return cls(f"lane_{axis}_{count}", axis, count)


Bindings = tuple[tuple[str, Value], ...]

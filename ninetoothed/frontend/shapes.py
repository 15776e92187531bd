"""Shape rules of tiles: logical extents, the powers of two that hold them, and NumPy's broadcasting on both."""

from __future__ import annotations

from dataclasses import dataclass

from ninetoothed.dtypes import DType
from ninetoothed.expr import Expr, Facts, as_expr, bounds, const, simplify
from ninetoothed.ir import TileType

MAX_TILE_ELEMENTS = 2**20


class ShapeMismatch(Exception):
    """Two shapes that do not fit, or an extent that is not known when compiling."""


@dataclass(frozen=True)
class Extent:
    """One dimension of a tile: what users see, and how many lanes hold it."""

    size: Expr
    lanes: int

    @property
    def is_one(self) -> bool:
        return self.lanes == 1


def next_power_of_two(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def extent(size, facts: Facts) -> Extent:
    """The extent of a dimension of `size` elements; its bound must be known when compiling."""
    size = simplify(as_expr(size), facts)
    upper = size.constant if size.is_constant else bounds(size, facts)[1]
    if upper is None:
        raise ShapeMismatch(
            f"a tile's extent {size} is not known when compiling; cut the dimension into tiles, or"
            " declare its size constexpr"
            ' (`shape_options={"constexpr": True}`)'
        )
    return Extent(size, next_power_of_two(upper))


def tile_type(dtype, extents) -> TileType:
    extents = tuple(extents)
    return TileType(dtype, tuple(e.size for e in extents), tuple(e.lanes for e in extents))


def extents_of(type: TileType) -> tuple[Extent, ...]:
    return tuple(Extent(size, lanes) for size, lanes in zip(type.shape, type.lanes, strict=True))


def with_dtype(type: TileType, dtype: DType) -> TileType:
    return TileType(dtype, type.shape, type.lanes)


ONE = Extent(const(1), 1)


def broadcast(lhs: tuple[Extent, ...], rhs: tuple[Extent, ...], facts: Facts) -> tuple[Extent, ...]:
    """The common shape of two, by NumPy's rules; ShapeMismatch where there is none."""
    rank = max(len(lhs), len(rhs))
    left = (ONE,) * (rank - len(lhs)) + tuple(lhs)
    right = (ONE,) * (rank - len(rhs)) + tuple(rhs)
    return tuple(_meet(a, b, lhs, rhs, facts) for a, b in zip(left, right, strict=True))


def _meet(a: Extent, b: Extent, lhs, rhs, facts: Facts) -> Extent:
    if a.is_one or b.is_one:
        return b if a.is_one else a
    difference = simplify(a.size - b.size, facts)
    known_to_differ = difference.is_constant and difference.constant != 0
    if known_to_differ or a.lanes != b.lanes:
        raise ShapeMismatch(f"shapes {text(lhs)} and {text(rhs)} do not broadcast together")
    return a


def text(extents) -> str:
    sizes = [str(e.size) for e in extents]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"

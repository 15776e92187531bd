"""Compute shapes of tiles: logical extents, the powers of two that hold them, and NumPy's broadcasting on both."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ninetoothed.arrangement.operands import shape_text
from ninetoothed.dtypes import DType, PointerType
from ninetoothed.expr import Expr, Facts, as_expr, bounds, const, simplify
from ninetoothed.expr.sizes import power_above
from ninetoothed.ir import TileType

_BROADCASTING = (
    "the last dimensions side by side, sizes must be equal or 1: add a dimension with `x[:, None]`, combine one with"
    " `ntl.sum`, or arrange tiles of one shape"
)


class Mismatch(Exception):
    """A mismatch of types or shapes, before its place in the source is known."""


class ShapeMismatch(Mismatch):
    """A mismatch of two shapes, or an extent that is not known when compiling.

    sizes: where it depends on the sizes of a call, the two that would have to be equal.
    remedy: what to write instead, where no other call would do.
    """

    remedy = ""

    def __init__(self, message: str, *sizes: Expr) -> None:
        super().__init__(message)
        self.sizes = sizes


@dataclass(frozen=True)
class Extent:
    """One dimension of a tile: the size that users see, and the number of lanes that hold it."""

    size: Expr
    lanes: int

    @property
    def is_one(self) -> bool:
        """Tell whether there is one lane, so that the dimension broadcasts."""
        return self.lanes == 1

    @property
    def is_full(self) -> bool:
        """Tell whether every lane is an element."""
        return self.size.is_constant and self.size.constant == self.lanes


def extent(size: Any, facts: Facts) -> Extent:
    """Return the extent of a dimension of `size` elements; its bound must be known when compiling."""
    if not isinstance(size, Expr) and (isinstance(size, bool) or not hasattr(size, "__index__")):
        raise ShapeMismatch(f"a tile's extent is a whole number, not {size!r}; divide with `//`")
    size = simplify(as_expr(size), facts)
    if size.is_constant and size.constant < 0:
        raise ShapeMismatch(f"a tile cannot have {size} elements along a dimension")
    upper = size.constant if size.is_constant else bounds(size, facts)[1]
    if upper is None:
        raise ShapeMismatch(
            f"a tile's extent {size} is not known when compiling; cut the dimension into tiles, or"
            " declare its size constexpr"
            ' (`shape_options={"constexpr": True}`)'
        )
    return Extent(size, power_above(upper))


def tile_type(dtype: DType | PointerType, extents: Iterable[Extent]) -> TileType:
    """Return the type of a tile with these extents."""
    extents = tuple(extents)
    return TileType(dtype, tuple(e.size for e in extents), tuple(e.lanes for e in extents))


def extents_of(type: TileType) -> tuple[Extent, ...]:
    """Return the extents of a tile's type."""
    return tuple(Extent(size, lanes) for size, lanes in zip(type.shape, type.lanes, strict=True))


def full(count: int) -> Extent:
    """Return the extent of a dimension of so many elements, which fill its lanes."""
    return Extent(const(count), count)


ONE = full(1)


# Requires two sizes to be equal: raises ShapeMismatch where they cannot be.
Require = Callable[[Expr, Expr, str], None]


def broadcast(lhs: tuple[Extent, ...], rhs: tuple[Extent, ...], require: Require, what: str = "") -> tuple[Extent, ...]:
    """Broadcast two shapes by NumPy's rules; ShapeMismatch, whose message begins with `what`, where they do not fit."""
    message = f"{what}shapes {text(lhs)} and {text(rhs)} do not broadcast together"
    with remedied(_BROADCASTING):
        return tuple(_meet(a, b, message, require) for a, b in _aligned(lhs, rhs))


def check_broadcast_to(own: tuple[Extent, ...], target: tuple[Extent, ...], message: str, require: Require) -> None:
    """Require a shape to broadcast to another. Raises ShapeMismatch with the message where it cannot."""
    with remedied(_BROADCASTING):
        if len(own) > len(target):
            raise ShapeMismatch(message)
        for a, b in _aligned(own, target):
            if a.is_one:
                _repeat(a, b, message, require)
            else:
                agree(a, b, message, require)


@contextmanager
def remedied(remedy: str) -> Iterator[None]:
    """Add a remedy to any ShapeMismatch that is raised inside."""
    try:
        yield
    except ShapeMismatch as error:
        error.remedy = remedy
        raise


def _aligned(lhs: tuple[Extent, ...], rhs: tuple[Extent, ...]) -> Iterator[tuple[Extent, Extent]]:
    """Pair the extents of two shapes, the last with the last."""
    rank = max(len(lhs), len(rhs))
    return zip((ONE,) * (rank - len(lhs)) + tuple(lhs), (ONE,) * (rank - len(rhs)) + tuple(rhs), strict=True)


def _meet(a: Extent, b: Extent, message: str, require: Require) -> Extent:
    if a.is_one or b.is_one:
        # Of an empty dimension and one of an element, the empty one stays: both have one lane.
        one, other = (a, b) if a.is_one and not (b.is_one and b.is_full) else (b, a)
        _repeat(one, other, message, require)
        return other
    agree(a, b, message, require)
    return a


def _repeat(one: Extent, other: Extent, message: str, require: Require) -> None:
    """Require that an extent of one lane broadcasts: if it is empty, so must be the other."""
    if one.size != 1 and other.size != 1:
        require(one.size * other.size, other.size, message)


def agree(a: Extent, b: Extent, message: str, require: Require) -> None:
    """Require two extents to be equal. Raises ShapeMismatch with the message where they cannot be."""
    if a.lanes != b.lanes:
        raise ShapeMismatch(message, a.size, b.size)
    require(a.size, b.size, message)


def reshapes(old: tuple[Extent, ...], new: tuple[Extent, ...], message: str, require: Require) -> bool:
    """Tell whether reshaping the lanes, row-major, reshapes the elements too; require the sizes on which it depends.

    Dimensions are matched in groups with equally many lanes. A single dimension stays what it is. Where dimensions are
    split or joined, all but the first must fill their lanes, so that no padding comes between elements.
    """
    left, right = ([e for e in extents if not e.is_one] for extents in (old, new))
    while left and right:
        groups = [left.pop(0)], [right.pop(0)]
        while (a := math.prod(e.lanes for e in groups[0])) != (b := math.prod(e.lanes for e in groups[1])):
            group, rest = (groups[0], left) if a < b else (groups[1], right)
            if not rest:
                return False
            group.append(rest.pop(0))
        if len(groups[0]) == len(groups[1]) == 1:
            require(groups[0][0].size, groups[1][0].size, message)
        elif any(not e.is_full for group in groups for e in group[1:]):
            return False
        else:
            require(_total(groups[0]), _total(groups[1]), message)
    return not left and not right


def _total(group: list[Extent]) -> Expr:
    return math.prod((e.size for e in group), start=const(1))


def text(extents: Iterable[Extent]) -> str:
    """Print extents as a shape."""
    return shape_text(e.size for e in extents)

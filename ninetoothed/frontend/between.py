"""Trace the tensors between two fused kernels: tiles in registers, and yet broadcast and rounded as if in memory.

    m = hold(...)    the tile of `m`, arranged like `z`, of which `first` assigns the elements
    first(x, m)
    pass_on(m)       what was stored is now loaded: converted to the type of `m`, `other` where it is out of bounds
    second(m, z)

`fuse` writes such applications.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ninetoothed.arrangement.value import SourceTensor
from ninetoothed.dtypes import CATEGORY_ORDER, DType
from ninetoothed.frontend import memory
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.numbers import numeric
from ninetoothed.frontend.regions import write
from ninetoothed.frontend.shapes import extents_of
from ninetoothed.frontend.values import Absent, Between, Cell, TileRef
from ninetoothed.ir import Access, Value


def _hold(context: TraceContext, cell: Cell, name: str, dtype: DType | None, model: Cell, *others: Cell) -> None:
    """Let a variable hold the tile of a tensor `name` that is in no memory, and arranged like that of `model`.

    Without a `dtype`, it is of the type of the first parameter of the highest kind among `model` and `others`.
    """
    tile, own = _place(context, model)
    types = [own, *(_place(context, each)[1] for each in others if not isinstance(each.tile, Absent))]
    highest = max(types, key=lambda each: CATEGORY_ORDER[each.category])
    cell.between = Between(name, tile, dtype or highest, dtype is None)
    type = _access(context, cell.between).type
    write(context, cell, context.builder.broadcast_to(context.builder.constant(0, type.dtype), extents_of(type)))


def fitted(context: TraceContext, between: Between, operand: Any) -> Value:
    """Broadcast what is assigned to a tensor between two kernels, as a store would."""
    value = memory.fitted(context, _access(context, between), operand)
    own, kind = numeric(value.type.dtype), CATEGORY_ORDER[between.dtype.category]
    if between.is_guessed and CATEGORY_ORDER[own.category] > kind:
        raise context.error(
            f"{between.name!r}, of {own}, lies between two fused kernels, and no tensor arranged like it has more than"
            f" {between.dtype}; say of which type it is where it is made: `Tensor(..., dtype=ninetoothed.{own})`"
        )
    return value


def _pass_on(context: TraceContext, cell: Cell, other: Any = None) -> None:
    """Convert what one kernel stored to what the next one loads; `other` is what that reads out of bounds."""
    if cell.value is None:  # It is in memory, from where it is loaded.
        return
    tile, dtype = _place(context, cell)
    place = _access(context, cell.between or Between(cell.name, tile, dtype))
    number = memory.other_of(context, SourceTensor(place.parameter, other=other), dtype)
    place = replace(place, other=number, edges=place.edges if other is None else ())
    passed = (context.builder.cast(cell.value, dtype),)
    value = context.builder.apply("passed", passed, shape=extents_of(place.type), access=place)
    write(context, cell, context.builder.named(value, cell.value.hint))


def _place(context: TraceContext, cell: Cell) -> tuple[TileRef, DType]:
    """Return the element of a tensor that a parameter is, and the type of its elements."""
    if cell.between is not None:
        return cell.between.tile, cell.between.dtype
    assert cell.tile is not None, "a tensor is arranged like another one"
    return cell.tile, numeric(context.argument(cell.tile.parameter).dtype)


def _access(context: TraceContext, between: Between) -> Access:
    """Return the place at which the tile of a tensor between two kernels would be."""
    place = memory.place_of(context, between.tile)
    return replace(place, parameter=between.name, type=place.type.with_dtype(between.dtype))


@dataclass(frozen=True)
class FusionStep:
    """A function that applications call which `fuse` writes. It takes variables, and not their values."""

    trace: Callable[..., None]


hold, pass_on = FusionStep(_hold), FusionStep(_pass_on)

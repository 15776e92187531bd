"""Trace the functions of libdevice: operands are converted as their rows say, and refused by name."""

from __future__ import annotations

from typing import Any

from ninetoothed import dtypes
from ninetoothed.dtypes import DType
from ninetoothed.frontend.builder import Operand
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.operators import operand
from ninetoothed.frontend.shapes import Mismatch
from ninetoothed.ir import Value
from ninetoothed.language.functions.libdevice import LibdeviceFunction
from ninetoothed.language.primitives import PRIMITIVES
from ninetoothed.language.signature import Place


def function(context: TraceContext, *operands: Any, row: LibdeviceFunction) -> Value:
    """Trace a function by its row."""
    builder = context.builder
    given = [operand(context, value) for value in operands]
    if row.name in PRIMITIVES and row.name.startswith("fast_"):  # those of float32 alone have rows of their own
        return builder.floating(row.name, *given)
    if row.is_of_floats:
        return builder.floating("libdevice", *given, name=row.name)
    types = _types(context, row, given)
    refusal = row.primitive.unfit(types)
    if refusal is not None:
        raise Mismatch(refusal)
    values = builder.broadcast(*(builder.value(each, dtype) for each, dtype in zip(given, types, strict=True)))
    (result,) = row.primitive.gives(list(types))
    value = builder.apply("libdevice", values, result, name=row.name)
    common = _common(context, given[:1])
    keeps_halves = common.is_half and not row.primitive.results[0].type.classes
    return builder.cast(value, common) if keeps_halves else value


def _types(context: TraceContext, row: LibdeviceFunction, operands: list[Operand]) -> list[DType]:
    """Return the type to which each operand is converted: operands of one variable have one type."""
    places, types = row.primitive.operands, []
    first = [each for each, place in zip(operands, places, strict=True) if not place.type.classes or place is places[0]]
    shared = _converted(_common(context, first), first, places[0])
    for each, place in zip(operands, places, strict=True):
        is_shared = place is places[0] or not place.type.classes
        types.append(shared if is_shared else _converted(_common(context, [each]), [each], place))
    return types


def _common(context: TraceContext, operands: list[Operand]) -> DType:
    return context.builder.common_type(*operands)


def _converted(dtype: DType, operands: list[Operand], place: Place) -> DType:
    """Return a type that a place takes for one that is converted without being asked to; else the type itself.

    A Python number takes any type of its kind, halves and integers become float32, as everywhere, and narrow integers
    the only type that there is, if it keeps their values.
    """
    taken = [each for each in dtypes.ALL if each in place.type.types]
    if dtype in taken:
        return dtype
    are_numbers = not any(isinstance(each, Value) for each in operands)
    if taken[0].is_floating:
        return taken[0] if are_numbers or (dtypes.float32 in taken and dtype != dtypes.float64) else dtype
    keeps_values = len(taken) == 1 and dtype.bits < taken[0].bits and dtype.category in ("uint", taken[0].category)
    return taken[0] if (are_numbers and not dtype.is_floating) or (dtype.is_integer and keeps_values) else dtype

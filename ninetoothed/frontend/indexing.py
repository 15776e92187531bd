"""Indexing: elements of the next level, of the innermost level, of the source, and of computed tiles."""

from __future__ import annotations

from typing import Any

from ninetoothed.expr import Expr, as_expr
from ninetoothed.frontend import memory, shapes
from ninetoothed.frontend.context import Context
from ninetoothed.frontend.functions import expand_dims
from ninetoothed.frontend.operators import integer
from ninetoothed.frontend.reductions import select
from ninetoothed.frontend.shapes import extents_of
from ninetoothed.frontend.values import SourceRef, TileRef
from ninetoothed.ir import Value


def index(context: Context, owner: Any, indices: tuple) -> Any:
    """`owner[indices]`: an element of the next level, elements of a tile, or elements of the source."""
    if isinstance(owner, SourceRef):
        return memory.gather(context, owner, _source_indices(context, indices))
    if isinstance(owner, TileRef):
        if memory.is_hierarchical(context, owner):
            return memory.element(context, owner, _element_indices(context, indices))
        if is_elementwise(indices):
            return memory.load(context, owner, innermost_indices(context, owner, indices))
        owner = memory.load(context, owner)
    if isinstance(owner, Value):
        return index_value(context, owner, indices)
    try:
        return owner[indices[0] if len(indices) == 1 else indices]
    except TypeError:
        raise context.error(f"{owner!r} cannot be indexed") from None


def is_elementwise(indices: tuple) -> bool:
    """Whether indices pick elements (rather than add axes to the whole tile)."""
    return any(not (i is None or i is Ellipsis or isinstance(i, slice)) for i in indices) and None not in [
        i for i in indices if i is None
    ]


def _source_indices(context: Context, indices: tuple) -> tuple:
    for i in indices:
        if not isinstance(i, int | Expr | Value):
            raise context.error("a source is indexed with numbers or tiles of indices, one a dimension")
        _check_integer(context, i)
    return indices


def _check_integer(context: Context, value: Any) -> None:
    if isinstance(value, Value) and value.type.dtype.is_floating:
        raise context.error(f"an index must be an integer, not {value.type.dtype}; convert it with `.to(ntl.int32)`")


def _element_indices(context: Context, indices: tuple) -> tuple:
    for i in indices:
        if i is None or i is Ellipsis or isinstance(i, slice):
            raise context.error("a tile of tiles is indexed with one number for each dimension")
    return tuple(as_expr(integer(context, i, "an index")) for i in indices)


def innermost_indices(context: Context, ref: TileRef, indices: tuple) -> tuple:
    """Indices into the innermost level: numbers, tiles of numbers, and bare slices."""
    rank = len(memory.shape(context, ref))
    if Ellipsis in [i for i in indices if i is Ellipsis]:
        at = next(n for n, i in enumerate(indices) if i is Ellipsis)
        indices = (*indices[:at], *(slice(None),) * (rank - len(indices) + 1), *indices[at + 1 :])
    if len(indices) > rank:
        raise context.error(f"a tile of {rank} dimensions is indexed with {len(indices)} indices")
    result = []
    for i in indices:
        _check_integer(context, i)
        if isinstance(i, slice):
            if i != slice(None):
                raise context.error("the innermost level can be sliced only with a bare `:`")
            result.append(i)
        elif isinstance(i, Value) and i.type.is_scalar:
            result.append(context.builder.expr_of(i))
        else:
            result.append(i if isinstance(i, Value) else as_expr(i))
    return tuple(result)


def index_value(context: Context, value: Value, indices: tuple) -> Value:
    """`v[:, None]`, `v[0]`, `v[i, :]` of a computed tile."""
    axis = 0
    rank = len(value.type.shape)
    given = sum(1 for index in indices if index is not None and index is not Ellipsis)
    if given > rank:
        raise context.error(f"a tile of shape {shapes.text(extents_of(value.type))} is indexed with {given} indices")
    for index in indices:
        if index is Ellipsis:
            axis += rank - given
        elif index is None:
            value = expand_dims(context, value, axis)
            axis += 1
        elif isinstance(index, slice):
            if index != slice(None):
                raise context.error("a computed tile can be sliced only with a bare `:`")
            axis += 1
        else:
            value = select(context, value, axis, index)
    return value

"""Look up attributes of tiles, levels and sources: shapes, types and methods."""

from __future__ import annotations

from typing import Any

from ninetoothed import free_names
from ninetoothed.dtypes import DType
from ninetoothed.expr import Expr
from ninetoothed.frontend import memory, remedies, shape_functions, values
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.jagged import entry_of_tile
from ninetoothed.frontend.values import BoundMethod, Dimension, LevelRef, SourceRef, TileRef, count_of, shown
from ninetoothed.ir import Access, Value
from ninetoothed.language.functions import FUNCTIONS
from ninetoothed.wording import near

_MUTATORS = frozenset("append extend insert remove pop clear sort reverse".split())


def attribute(context: TraceContext, owner: Any, name: str) -> Any:
    """Look up an attribute of a tile, a level, a source, a place in memory, or any Python object."""
    if isinstance(owner, TileRef):
        return _tile_attribute(context, owner, name)
    if isinstance(owner, LevelRef):
        return _level_attribute(context, owner.parameter, owner.level, name, owner.indices)
    if isinstance(owner, SourceRef):
        return _source_attribute(context, owner, name)
    if isinstance(owner, Access):
        return BoundMethod(owner, name)
    if isinstance(owner, Expr):
        owner = context.builder.value(owner)
    if isinstance(owner, Value):
        return _value_attribute(context, owner, name)
    if isinstance(owner, tuple) and name in _MUTATORS:
        raise context.error(f"a list has no {name!r} here: it is what it was made of; write `[*items, item]`, say")
    try:
        value = getattr(owner, name)
    except AttributeError:
        remedy = near(name, dir(owner)) or "it is no tile, but Python's: take what it has, or assign a tile"
        raise context.error(f"{shown(owner)} has no attribute {name!r}; {remedy}") from None
    if not isinstance(owner, DType):  # they never change
        context.note(free_names.of_owner(owner, name, value))
    return value


def _sizes(sizes: Any) -> tuple:
    return tuple(size.constant if isinstance(size, Expr) and size.is_constant else size for size in sizes)


def _tile_attribute(context: TraceContext, ref: TileRef, name: str) -> Any:
    if name == "source":
        return SourceRef(ref.parameter)
    if name in ("offsets", "data_ptr"):
        return BoundMethod(ref, name)
    if name in ("shape", "ndim", "dtype"):
        return _level_attribute(context, ref.parameter, ref.level, name, ref.indices)
    if memory.is_hierarchical(context, ref):
        raise context.error(
            f"a tile of tiles has no attribute {name!r}; index it to get a tile, as in `{memory.name(context, ref)}[0]`"
            ", or take its shape, ndim, dtype, source, offsets or data_ptr"
        )
    return _value_attribute(context, memory.load(context, ref), name, is_computed=False)


def _level_attribute(
    context: TraceContext, parameter: int, level: int, name: str, indices: tuple[tuple[Expr, ...], ...]
) -> Any:
    levels = context.levels[parameter]
    shape = levels[level] if level < len(levels) else ()
    if name == "shape" and level < len(levels):
        entry = entry_of_tile(context, parameter, indices)
        shape = shape if entry is None else tuple(map(context.simplified, entry.arrangement.levels[level], shape))
    is_last = level + 1 >= len(levels)
    known = {
        "shape": tuple(count_of(size, Dimension(parameter, level, dim)) for dim, size in enumerate(shape)),
        "ndim": len(shape),
        "dtype": context.argument(parameter).dtype if is_last else LevelRef(parameter, level + 1, indices),
    }
    if name not in known:
        raise context.error(f"{name!r} is no attribute of a tile's type; it has shape, ndim and dtype")
    return known[name]


def _source_attribute(context: TraceContext, ref: SourceRef, name: str) -> Any:
    source = context.definition.parameters[ref.parameter].source
    known = {
        "shape": _sizes(source_shape(context, ref.parameter)) if name == "shape" else (),
        "strides": _sizes(map(context.number, source.strides)),
        "ndim": source.ndim,
        "dtype": context.argument(ref.parameter).dtype,
        **{method: BoundMethod(ref, method) for method in ("size", "stride", "data_ptr")},
    }
    if name not in known:
        *others, last = known
        raise context.error(f"{name!r} is no attribute of a source; it has {', '.join(others)} and {last}")
    return known[name]


def source_shape(context: TraceContext, parameter: int) -> tuple[Expr, ...]:
    """Return the shape of a source; of a jagged one that of the program's entry, or of the longest if it has more."""
    own = context.definition.parameters[parameter]
    if own.jagged is None:
        return tuple(map(context.number, own.source.sizes))
    shape = tuple(map(context.number, own.jagged.sizes))
    entry = entry_of_tile(context, parameter, (context.program_indices(parameter),))
    dim = own.jagged.dim
    return shape if entry is None else (*shape[:dim], entry.length, *shape[dim + 1 :])


def _value_attribute(context: TraceContext, value: Value, name: str, is_computed: bool = True) -> Any:
    known = {"shape": _sizes(value.type.shape), "ndim": len(value.type.shape), "dtype": value.type.dtype}
    if name in known:
        return known[name]
    if name == "T":
        return shape_functions.permute(context, value, ()) if len(value.type.shape) > 1 else value
    if name == "to" or name in FUNCTIONS:
        return BoundMethod(value, name)
    what = "a computed tile" if is_computed and name in values.MEMORY_ATTRIBUTES else "a tile"
    raise context.error(f"{what} has no attribute {name!r}; {remedies.for_attribute(name, is_computed)}")

"""Arrangements with numbers: substitute them for symbols, and list the source's element at each index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy

from ninetoothed.arrangement.metaops import index_map
from ninetoothed.arrangement.operands import shape_text
from ninetoothed.arrangement.sizes import as_size
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.value import Arrangement, Shape, Size, Step
from ninetoothed.errors import arrangement_error as _error
from ninetoothed.expr import as_expr, var
from ninetoothed.expr.arrays import Arrays
from ninetoothed.wording import brief, counted


def with_numbers(arrangement: Arrangement, mapping: Mapping[Any, Any]) -> Arrangement:
    """Return `arrangement` with numbers in the place of symbols.

    `mapping` is that of `Tensor.subs`, but with the arrangements of tensors as keys. Raises `ArrangementError` where a
    size does not fit what is known of it.
    """
    arrangement = arrangement.subs(_values(mapping))
    for name, shape in _shapes(mapping):
        if name == arrangement.source.name:
            _check_shape(name, arrangement.source.sizes, shape)
    for step in arrangement.steps:
        _check_step(arrangement, step)
    return arrangement


def elements(arrangement: Arrangement) -> numpy.ndarray:
    """Return the row-major index into the source of every element of every level, outermost first; -1 out of bounds.

    Raises `ArrangementError` where a symbol is left.
    """
    if arrangement.source.jagged_dim is not None:
        raise _error(
            f"`{arrangement.source.name}` is jagged, and only the offsets of a call tell where its elements are",
            "leave `jagged_dim` out to see how the longest entry is arranged",
        )
    unknown = sorted(arrangement.symbols)
    if unknown:
        source = arrangement.source.name
        others = (name for name in unknown if not name.startswith(f"{source}_size_"))
        example = ", ".join(['{x: {"shape": (4, 8)}', *(f'"{name}": 2' for name in others)])
        what = f"`{source}` of shape {shape_text(arrangement.levels[0])} has no numbers for {', '.join(unknown)}"
        raise _error(what, f"give them, for example x.eval({example}}})")
    shape: Any = tuple(size for level in arrangement.levels for size in level)  # numbers, now that no name is left
    values = {f"i{dim}": grid for dim, grid in enumerate(numpy.indices(shape, sparse=True))}
    indices, valid = _located(arrangement, Arrays(values))
    flat: Any = 0
    for index, size in zip(indices, arrangement.source.sizes, strict=True):
        flat = flat * size + index
    return numpy.array(numpy.broadcast_to(numpy.where(valid, flat, -1), shape), dtype=numpy.int64)


def _located(arrangement: Arrangement, arrays: Arrays) -> tuple[list[Any], Any]:
    """Index arrays for the dimensions of the source, and where all guards hold."""
    names = iter(arrays.values)
    indices = tuple(tuple(var(next(names)) for _ in level) for level in arrangement.levels)
    place, guards = index_map(arrangement, indices)
    valid: Any = True
    for guard in guards:
        index, size = guard.index.fold(arrays), guard.size.fold(arrays)
        valid = valid & ((0 <= index) & (index < size))
    return [index.fold(arrays) for index in place], valid


def _shapes(mapping: Mapping[Any, Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for key, value in mapping.items():
        if not isinstance(key, Arrangement):
            continue
        shape = value.get("shape") if isinstance(value, dict) else getattr(value, "shape", None)
        if shape is None or (isinstance(value, dict) and value.keys() != {"shape"}):
            what = f"`{key.source.name}` cannot be replaced by {brief(value)}"
            raise _error(what, 'give {"shape": (...)} or a tensor with a shape')
        try:
            yield key.source.name, tuple(map(as_size, shape if isinstance(shape, Iterable) else (shape,)))
        except TypeError as error:
            raise _error(
                f"`{key.source.name}` cannot have the shape {brief(shape)}: {error.args[0]}", "give its sizes"
            ) from None


def _values(mapping: Mapping[Any, Any]) -> dict[str, Size]:
    """Return the size for each name; the sizes of a tensor are those of its source."""
    values: dict[str, Size] = {}
    for key, value in mapping.items():
        if isinstance(key, Arrangement):
            continue
        name = key.name if isinstance(key, Symbol) else key
        if not isinstance(name, str):
            raise _error(f"`{key}` cannot be replaced", "keys are tensors, symbols and names")
        try:
            values[name] = as_size(value)
        except TypeError as error:
            raise _error(f"`{name}` cannot be replaced: {error.args[0]}", "give an int or a symbol") from None
    sources = {key.source.name: key.source for key in mapping if isinstance(key, Arrangement)}
    for name, shape in _shapes(mapping):
        sizes = sources[name].sizes
        if len(sizes) != len(shape):
            what = f"`{name}` of shape {shape_text(sizes)} cannot have the shape {shape}"
            raise _error(what, f"give {counted(len(sizes), 'size')}")
        for dim, (size, number) in enumerate(zip(sizes, shape, strict=True)):
            known = size.name if isinstance(size, Symbol) else None
            for symbol in dict.fromkeys((known, f"{name}_size_{dim}")):
                if symbol is not None:
                    values[symbol] = as_size(number)
    return values


def _check_shape(name: str, sizes: Shape, shape: tuple[Any, ...]) -> None:
    for dim, (size, number) in enumerate(zip(sizes, shape, strict=True)):
        if isinstance(size, int) and isinstance(number, int) and size != number:
            raise _error(f"dimension {dim} of `{name}` has size {size}, which cannot become {number}", f"give {size}")


def _check_step(arrangement: Arrangement, step: Step) -> None:
    if step.operation not in ("squeeze", "expand"):
        return
    wanted = step.arguments[1] if step.operation == "expand" else (1,) * len(step.shape)
    for dim in step.arguments[0]:
        size = step.shape[dim]
        if isinstance(size, int) and size > 1 and as_expr(size) != as_expr(wanted[dim]):
            what = (
                f"{step.operation} of `{arrangement.source.name}`, level {step.level}: dimension {dim} has size {size}"
            )
            raise _error(f"{what} with these numbers", "give numbers with which it has size 1")

"""Tell which dimensions of tensors a kernel's programs share out among themselves, by the arrangements alone.

    arrange.rows(x, weight, y)      x: 0.0 1.0 whole, weight: whole, y: 0.0 1.0 whole, of three dimensions
    mm.arrangement(x, other, y)     x: 0.0 reduced, other: reduced 1.0, y: 0.0 1.0

A dimension that the grid cuts into single elements, or into blocks whose size the compiler chooses, is independent: any
part of it, in all tensors that have it, is computed as a kernel of its own would. Its name is a dimension of the grid
and the place among those that were flattened to it. Others are whole in each program: of those of inputs, a kernel
whose outputs are all shared out keeps nothing but what it reduces them to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ninetoothed.arrangement.metaops import follow, is_cut, partitions
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.value import Arrangement, Size, Step
from ninetoothed.expr import as_expr

WHOLE = "whole"
REDUCED = "reduced"
# The dimensions of the source that a dimension of a level counts, the outermost first.
Origins = tuple[int, ...]


@dataclass(frozen=True)
class _Origin:
    """Follow dimensions of a source to those of all levels; `bound` were cut in another way than into blocks."""

    levels: tuple[tuple[Origins, ...], ...]
    bound: frozenset[int]


def independence(arrangements: Mapping[str, Arrangement], outputs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Tell of each dimension of each tensor the grid's dimension that shares it out, or `WHOLE`, or `REDUCED`."""
    found = {name: _origin(each) for name, each in arrangements.items() if each.source.ndim}
    counts = [max(map(len, dims)) for dims in zip(*(each.levels[0] for each in found.values()))]
    shared = {name: _shared(each, arrangements[name].source.ndim, counts) for name, each in found.items()}
    is_kept = any(WHOLE in shared[name] for name in outputs)
    return {
        name: dims if is_kept or name in outputs else tuple(REDUCED if dim == WHOLE else dim for dim in dims)
        for name, dims in shared.items()
    }


def _shared(origin: _Origin, ndim: int, counts: Sequence[int]) -> tuple[str, ...]:
    """Name the dimensions of a source by the grid's; one that was joined of fewer than another's has no place there."""
    names = {
        dim: f"{number}.{place}"
        for number, (dims, count) in enumerate(zip(origin.levels[0], counts))
        if len(dims) == count
        for place, dim in enumerate(dims)
    }
    return tuple(WHOLE if dim in origin.bound else names.get(dim, WHOLE) for dim in range(ndim))


def _origin(arrangement: Arrangement) -> _Origin:
    levels: list[tuple[Origins, ...]] = [tuple((dim,) for dim in range(arrangement.source.ndim))]
    bound: set[int] = set()
    for step in arrangement.steps:
        end = len(levels) if step.operation == "ravel" else step.level + 1
        here = levels[step.level : end]
        if step.operation == "tile":
            levels[step.level : end] = _tiled(step, here[0], bound)
        else:
            levels[step.level : end] = _moved(step, here, bound)
    return _Origin(tuple(levels), frozenset(bound))


def _tiled(step: Step, here: tuple[Origins, ...], bound: set[int]) -> list[tuple[Origins, ...]]:
    """Follow `tile` to the tiles, and to the elements of a tile; of windows no part of a dimension is independent."""
    (strides, dilations), (counts, inner) = step.arguments, step.after
    for origins, whole, tile, stride, dilation, count in zip(here, step.shape, inner, strides, dilations, counts):
        is_independent = as_expr(tile) == 1 or _is_chosen(tile) or stride == 0
        if not (is_independent and is_cut(whole, tile, stride, dilation, count)):
            bound.update(origins)
    outer = tuple(() if stride == 0 else origins for origins, stride in zip(here, strides))
    return [outer, tuple(() if as_expr(size) == 1 else origins for origins, size in zip(here, inner))]


def _is_chosen(size: Size) -> bool:
    return isinstance(size, Symbol) and size.meta is True


def _moved(step: Step, levels: Sequence[tuple[Origins, ...]], bound: set[int]) -> tuple[tuple[Origins, ...], ...]:
    here = levels[0]
    if step.operation == "index" and not partitions(step):
        bound.update(dim for origins in here for dim in origins)
    if step.operation == "pad":
        for origins, before, old, new in zip(here, step.arguments[0], step.shape, step.after[0]):
            bound.update(origins if before != 0 or as_expr(old) != as_expr(new) else ())

    def resized(d: int, _: Size) -> Origins:
        return () if step.operation == "expand" and d in step.arguments[0] else here[d]

    return follow(step, levels, (), resized, lambda joined, _: tuple(dim for origins in joined for dim in origins))

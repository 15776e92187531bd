"""The meta-operations: each has a shape rule, a function of its name, and an index rule, a case of `pull_back`.

A shape rule takes an arrangement and the level that it changes, and returns a new arrangement; it raises
`ArrangementError` where something does not fit. An index rule maps an element's indices after a step to those before.
`partitions` says of each whether every element before it is one element after it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from ninetoothed.arrangement.guards import Guard
from ninetoothed.arrangement.operands import (
    KeywordArgument,
    MetaOperation,
    is_below,
    never_negative,
    several,
    shape_text,
)
from ninetoothed.arrangement.sizes import largest
from ninetoothed.arrangement.subscripts import full_key, position, span
from ninetoothed.arrangement.symbol import leaves_of
from ninetoothed.arrangement.value import Arrangement, Size, Step
from ninetoothed.expr import Expr, as_expr, cdiv, const, minimum, var
from ninetoothed.wording import counted

T = TypeVar("T")


def pull_back(
    step: Step, indices: tuple[tuple[Expr, ...], ...]
) -> tuple[tuple[tuple[Expr, ...], ...], tuple[Guard, ...]]:
    """Map the indices of an element after `step` (a tuple a level) to its indices before it, and to guards.

    If every index after the step is within its extent and every guard holds, so is every index before it.
    """
    outer, here, inner = indices[: step.level], indices[step.level], indices[step.level + 1 :]
    sizes = tuple(map(as_expr, step.shape))
    guards: tuple[Guard, ...] = ()
    match step.operation:
        case "tile":  # x[o * stride + n * dilation] = y[o][n]
            here, inner = tuple(map(_offset, here, inner[0], *step.arguments)), inner[1:]
            guards = tuple(map(Guard, here, sizes))
        case "expand":  # x[0] = y[i]; x[i] where the size turns out to be the wanted one; x[-1] where it is 0
            dims, wanted = step.arguments
            dims = tuple(d for d in dims if sizes[d] != as_expr(wanted[d]))
            here = tuple(_repeated(i, sizes[d]) if d in dims else i for d, i in enumerate(here))
            guards = tuple(Guard(here[d], sizes[d]) for d in dims)
        case "unsqueeze":  # x[] = y[0]
            (dim,) = step.arguments
            here = here[:dim] + here[dim + 1 :]
        case "squeeze":  # x[0] = y[]
            (dims,) = step.arguments
            kept = iter(here)
            here = tuple(const(0) if d in dims else next(kept) for d in range(len(sizes)))
            guards = tuple(Guard(const(0), sizes[d]) for d in dims)
        case "permute":  # x[i_0, i_1, ...] = y[i_dims[0], i_dims[1], ...]
            (dims,) = step.arguments
            here = tuple(here[dims.index(d)] for d in range(len(dims)))
        case "flatten":  # x[t // (n_1 * n_2), t // n_2 % n_1, t % n_2] = y[t]
            start, end = step.arguments
            here = here[:start] + unflatten(here[start], sizes[start:end]) + here[start + 1 :]
        case "ravel":  # x[i][j] = y[i, j]
            return (*outer, *_parts(here, *step.arguments), *inner), guards
        case "pad":  # x[i - before] = y[i]
            (before,) = step.arguments
            here = tuple(i - as_expr(b) for i, b in zip(here, before, strict=True))
            guards = tuple(map(Guard, here, sizes))
        case "index":  # x[start + i * stride] = y[i]; a stride of 0 took the dimension away
            starts, strides, kept_dims = step.arguments
            own = dict(zip(kept_dims, here, strict=True))
            here = tuple(as_expr(start) + own.get(d, 0) * strides[d] for d, start in enumerate(starts))
            guards = tuple(Guard(here[d], sizes[d]) for d in range(len(sizes)) if d not in own)
        case _:
            raise AssertionError(step.operation)
    return (*outer, here, *inner), guards


def partitions(step: Step) -> bool:
    """Tell whether each element before a step is one element after it, and no more.

    >>> from ninetoothed import Tensor
    >>> tiled = Tensor(1).tile((64,)), Tensor(1).tile((64,), strides=(32,))
    >>> [partitions(tensor.arrangement.steps[0]) for tensor in tiled]
    [True, False]
    """
    match step.operation:
        case "tile":
            strides, dilation = step.arguments
            counts, tiles = step.after
            return all(map(is_cut, step.shape, tiles, strides, dilation, counts))
        case "expand":
            dims, wanted = step.arguments
            return all(wanted[dim] == 1 for dim in dims)
        case "pad":
            return all(before == 0 for before in step.arguments[0]) and step.after[0] == step.shape
        case "index":
            starts, strides, kept = step.arguments
            whole = all(start == 0 for start in starts) and all(strides[dim] == 1 for dim in kept)
            return whole and step.after[0] == step.shape
        case "unsqueeze" | "squeeze" | "permute" | "flatten" | "ravel":
            return True
    raise AssertionError(step.operation)


def is_cut(size: Size, tile: Size, stride: Size, dilation: Size, count: Size) -> bool:
    """Tell whether tiles of a dimension follow each other, and reach its end; one tile has it all at stride 0."""
    if stride == 0:
        return True
    number, whole = as_expr(count), cdiv(as_expr(size), as_expr(tile))
    return same_size(stride, tile) and dilation == 1 and bool(number == whole)


def follow(
    step: Step,
    levels: Sequence[tuple[T, ...]],
    one: T,
    resized: Callable[[int, Size], T],
    joined: Callable[[tuple[T, ...], Size], T],
) -> tuple[tuple[T, ...], ...]:
    """Carry what is known of dimensions through a step: from the levels that it replaces to those that it makes.

    one: what is known of a new dimension of size 1. resized: of one, by its number before the step, that gets a size.
    joined: of several that become one of a size.
    """
    here, after = levels[0], step.after[0]
    match step.operation:
        case "ravel":
            return (tuple(dimension for level in levels for dimension in level),)
        case "unsqueeze":
            (dim,) = step.arguments
            return ((*here[:dim], one, *here[dim:]),)
        case "squeeze":
            return (tuple(dimension for d, dimension in enumerate(here) if d not in step.arguments[0]),)
        case "permute":
            return (tuple(here[d] for d in step.arguments[0]),)
        case "flatten":
            start, end = step.arguments
            return ((*here[:start], joined(here[start:end], after[start]), *here[end:]),)
        case "index":
            return (tuple(map(resized, step.arguments[2], after)),)
    return tuple(tuple(map(resized, range(len(here)), shape)) for shape in step.after)


def index_map(
    arrangement: Arrangement, indices: tuple[tuple[Expr, ...], ...] | None = None
) -> tuple[tuple[Expr, ...], frozenset[Guard]]:
    """Return the place in the source of the element at `indices`, by default at names, and the guards on the way."""
    levels = enumerate(arrangement.levels)
    indices = indices or tuple(tuple(var(f"index_{i}_{dim}") for dim in range(len(shape))) for i, shape in levels)
    found: list[Guard] = []
    for step in reversed(arrangement.steps):
        indices, guards = pull_back(step, indices)
        found += guards
    return indices[0], frozenset(found)


def _offset(outer: Expr, inner: Expr, stride: Size, dilation: Size) -> Expr:
    return outer * as_expr(stride) + inner * as_expr(dilation)


def _repeated(index: Expr, size: Expr) -> Expr:
    """Return the index, before `expand`, of a dimension whose size may be 1 or the wanted one."""
    return const(0) if size == 1 else minimum(index, size - 1)


def _parts(here: tuple[Expr, ...], counts: tuple[int, ...]) -> Iterator[tuple[Expr, ...]]:
    """Split the indices of levels that were joined, of so many dimensions each."""
    dims = iter(here)
    return (tuple(islice(dims, count)) for count in counts)


def unflatten(t: Expr, sizes: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Split an index row-major. The first dimension takes the overflow, so that guards are conditions on `t` itself."""
    indices: list[Expr] = []
    for size in reversed(sizes[1:]):
        size = size if size != 0 else const(1)  # an empty dimension has no element to misplace
        indices.append(t % size)
        t = t // size
    if sizes:
        indices.append(t)
    return tuple(reversed(indices))


def tile(
    arrangement: Arrangement,
    level: int,
    tile_shape: Any,
    strides: Any = None,
    dilation: Any = None,
    floor_mode: bool = False,
    loop: Any = None,
) -> Arrangement:
    """Split a level: the outer size is `div(size - dilation * (tile - 1) - 1, stride) + 1`, never below 0.

    A tile of None is one element, and has no such dimension. `loop` makes a level between of the tiles along these
    dimensions: all of them, or as many as a mapping says.
    """
    given = {"strides": strides, "dilation": dilation, "loop": loop}
    named = tuple(KeywordArgument(name, value) for name, value in given.items() if value is not None)
    call = MetaOperation(arrangement, level, "tile", (tile_shape, *named))
    shape = call.shape
    single = tuple(dim for dim, size in enumerate(several(tile_shape)) if size is None)
    tile_shape = call.per_dimension(tuple(1 if size is None else size for size in several(tile_shape)), "tile_shape")
    strides = call.per_dimension((-1,) * len(shape) if strides is None else strides, "strides")
    dilation = call.per_dimension((1,) * len(shape) if dilation is None else dilation, "dilation")
    rows = [
        _tile_dimension(call, *row, floor_mode)
        for row in zip(range(len(shape)), tile_shape, strides, dilation, strict=True)
    ]
    outer, inner, steps = (tuple(row[i] for row in rows) for i in range(3))
    arrangement = arrangement.then(Step("tile", level, shape, (steps, dilation)), outer, inner)
    if single:
        arrangement = squeeze(arrangement, level + 1, single)
    return arrangement if loop is None else _looped(call, arrangement, loop)


def _looped(call: MetaOperation, arrangement: Arrangement, loop: Any) -> Arrangement:
    """Group tiles along dimensions: a level of the tiles of a group, which has these dimensions alone."""
    counts = loop if isinstance(loop, Mapping) else dict.fromkeys(several(loop), -1)
    dims = call.dimensions(tuple(counts))
    found = dict(zip(dims, call.sizes(tuple(counts.values()), "loop"), strict=True))
    for dim, count in found.items():
        if is_below(count, 1) and count != -1:
            raise call.error(f"the loop takes {count} tiles along dimension {dim}", "give 1 or more, or -1 for all")
    rank = len(call.shape)
    arrangement = tile(arrangement, call.level, tuple(found.get(dim, 1) for dim in range(rank)))
    return squeeze(arrangement, call.level + 1, tuple(dim for dim in range(rank) if dim not in found))


def _tile_dimension(
    call: MetaOperation, dim: int, tile_size: Size, stride: Size, dilation: Size, floor_mode: bool
) -> tuple[Size, Size, Size]:
    """Return `(outer size, inner size, stride)`; the one tile of a whole dimension has stride 0."""
    size = call.shape[dim]
    if is_below(dilation, 1):
        raise call.error(f"the dilation of dimension {dim} is {dilation}", "give 1 or more")
    if tile_size == -1:
        return 1, size, 0
    if is_below(tile_size, 1 if stride == -1 else 0):
        raise call.error(f"the tile size of dimension {dim} is {tile_size}", "give 1 or more, or -1 for all of it")
    if stride == -1:
        stride = tile_size
    if is_below(stride, 1):
        raise call.error(f"the stride of dimension {dim} is {stride}", "give 1 or more, or -1 for the tile size")
    span = size - dilation * (tile_size - 1) - 1
    outer = (span if floor_mode else span + stride - 1) // stride + 1
    if isinstance(outer, int):
        return max(outer, 0), tile_size, stride
    adjacent = dilation == 1 and stride == tile_size
    return outer if adjacent or never_negative(outer) else largest(outer, 0), tile_size, stride


def expand(arrangement: Arrangement, level: int, shape: Any) -> Arrangement:
    """Repeat dimensions of size 1; -1 keeps a size; new dimensions come first, as in PyTorch."""
    call = MetaOperation(arrangement, level, "expand", (shape,))
    target = call.sizes(shape, "shape")
    added = len(target) - len(call.shape)
    if added < 0:
        what = f"shape {shape_text(target)} has {counted(len(target), 'entry', 'entries')}"
        raise call.error(what, f"give at least {len(call.shape)}, one a dimension; -1 keeps a size")
    for _ in range(added):
        arrangement = unsqueeze(arrangement, level, 0)
    before = arrangement.levels[level]
    after, dims = [], []
    for dim, (size, wanted) in enumerate(zip(before, target, strict=True)):
        if dim < added and is_below(wanted, 0):
            raise call.error(f"the new dimension {dim} has size {wanted}", "-1 keeps a size, which a new one has not")
        if wanted == -1 or same_size(size, wanted):
            after.append(size)
        elif is_below(wanted, 0) or (isinstance(size, int) and size != 1):
            what = f"dimension {dim} has size {size}, which cannot become {as_expr(wanted)}"
            raise call.error(what, "only a size of 1 expands; -1 keeps a size")
        else:
            after.append(wanted)
            dims.append(dim)
    return arrangement.then(Step("expand", level, before, (tuple(dims), tuple(after))), tuple(after))


def unsqueeze(arrangement: Arrangement, level: int, dim: Any) -> Arrangement:
    """Add a dimension of size 1 at `dim`."""
    call = MetaOperation(arrangement, level, "unsqueeze", (dim,))
    before = call.shape
    dim = call.dimension(dim, len(before) + 1)
    return call.then((dim,), (*before[:dim], 1, *before[dim:]))


def squeeze(arrangement: Arrangement, level: int, dims: Any) -> Arrangement:
    """Take dimensions of size 1 away."""
    call = MetaOperation(arrangement, level, "squeeze", (dims,))
    before = call.shape
    dims = call.dimensions(dims)
    for dim in dims:
        size = before[dim]
        if isinstance(size, int) and size != 1:
            raise call.error(f"dimension {dim} has size {size}", "only a dimension of size 1 can be squeezed")
    after = tuple(size for dim, size in enumerate(before) if dim not in dims)
    return call.then((dims,), after)


def permute(arrangement: Arrangement, level: int, dims: Any) -> Arrangement:
    """Reorder dimensions: dimension d of the result is dimension `dims[d]`."""
    call = MetaOperation(arrangement, level, "permute", (dims,))
    before = call.shape
    dims = call.dimensions(dims)
    if len(dims) != len(before):
        named = f"{counted(len(dims), 'dimension')} of {len(before)} {'is' if len(dims) == 1 else 'are'} named"
        raise call.error(named, "name every dimension once")
    return call.then((dims,), tuple(before[dim] for dim in dims))


def flatten(arrangement: Arrangement, level: int, start_dim: Any = None, end_dim: Any = None) -> Arrangement:
    """Flatten dimensions `start_dim` to `end_dim`, exclusive, into one."""
    given = (start_dim, end_dim) if end_dim is not None else () if start_dim is None else (start_dim,)
    call = MetaOperation(arrangement, level, "flatten", given)
    before = call.shape
    start = 0 if start_dim is None else call.dimension(start_dim, max(len(before), 1))
    end = len(before) if end_dim is None else call.dimension(end_dim, len(before) + 1, wrap=len(before))
    if before and end <= start:
        what = f"no dimension lies from {start} to {end}, exclusive"
        raise call.error(what, "let end_dim be one more than the last dimension to flatten")
    size: Size = 1
    for factor in before[start:end]:
        size = size * factor
    return call.then((start, end), (*before[:start], size, *before[end:]))


def ravel(arrangement: Arrangement, level: int) -> Arrangement:
    """Join this level and all inner ones into one level, outermost dimensions first."""
    joined = arrangement.levels[level:]
    step = Step("ravel", level, joined[0], (tuple(map(len, joined)),))
    return arrangement.then(step, tuple(size for shape in joined for size in shape), replaced=len(joined))


def pad(arrangement: Arrangement, level: int, pad: Any) -> Arrangement:
    """Add `((before, after), ...)` elements, one pair a dimension, that are out of bounds."""
    call = MetaOperation(arrangement, level, "pad", (pad,))
    before = call.shape
    pairs = call.pairs(pad, "pad")
    for dim, pair in enumerate(pairs):
        if any(is_below(amount, 0) for amount in pair):
            what = f"dimension {dim} is padded by {shape_text(pair)}"
            raise call.error(what, "an amount is 0 or more; a slice takes elements away")
    after = tuple(first + size + last for size, (first, last) in zip(before, pairs, strict=True))
    return call.then((tuple(pair[0] for pair in pairs),), after)


def paddings(step: Step) -> tuple[Size, ...]:
    """Return the amounts by which a step pads each dimension; () for any other step."""
    if step.operation != "pad":
        return ()
    (before,), (padded,) = step.arguments, step.after
    after = tuple(whole - first - size for whole, first, size in zip(padded, before, step.shape, strict=True))
    return (*before, *after)


def index(arrangement: Arrangement, level: int, key: Any) -> Arrangement:
    """Index with ints, slices, None and `...`, as in NumPy."""
    call = MetaOperation(arrangement, level, "index", (key,))
    sizes = frozenset(name for size in arrangement.source.sizes for name in leaves_of(size))
    starts: list[Size] = []
    strides: list[int] = []
    kept: list[int] = []
    after: list[Size] = []
    new: list[int] = []
    for item in full_key(call, key):
        dim = len(starts)
        if item is None:
            new.append(len(after) + len(new))
            continue
        if isinstance(item, slice):
            start, length, stride = span(call, item, dim, sizes)
            kept.append(dim)
            after.append(length)
        else:
            start, stride = position(call, item, dim, sizes), 0
        starts.append(start)
        strides.append(stride)
    step = Step("index", level, call.shape, (tuple(starts), tuple(strides), tuple(kept)))
    arrangement = arrangement.then(step, tuple(after))
    for dim in new:
        arrangement = unsqueeze(arrangement, level, dim)
    return arrangement


def same_size(a: Size | Expr, b: Size | Expr) -> bool:
    """Tell whether two sizes are one expression."""
    return bool(as_expr(a) == as_expr(b))

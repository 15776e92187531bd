"""The meta-operations: for each a shape rule (a function of its name) and, all in `pull_back`, an index rule.

A shape rule takes an arrangement and the level that it changes and returns a new arrangement; what does not fit raises
`ArrangementError`. An index rule turns the indices of an element after a step into its indices before it.
"""

from dataclasses import dataclass

from ninetoothed.arrangement import Arrangement, Shape, Size, Step
from ninetoothed.errors import ArrangementError, user_line
from ninetoothed.expr import Expr, Facts, as_expr, const, is_nonnegative, minimum
from ninetoothed.symbol import Symbol, as_size, largest, leaves_of, smallest


@dataclass(frozen=True)
class Guard:
    """The access is in bounds only if `0 <= index` (where `lower`) and `index < size` (where `upper`)."""

    index: Expr
    size: Expr
    lower: bool = True
    upper: bool = True


def pull_back(
    step: Step, indices: tuple[tuple[Expr, ...], ...]
) -> tuple[tuple[tuple[Expr, ...], ...], tuple[Guard, ...]]:
    """`(indices, guards)` before `step` of the element that has `indices` (a tuple a level) after it.

    Where every index after the step is within its extent and every guard holds, so is every index before it.
    """
    outer, here, inner = indices[: step.level], indices[step.level], indices[step.level + 1 :]
    sizes = tuple(map(as_expr, step.shape))
    guards: tuple[Guard, ...] = ()
    match step.operation:
        case "tile":  # x[o * stride + n * dilation] = y[o][n]
            strides, dilation = step.arguments
            here = tuple(
                o * as_expr(stride) + n * as_expr(d)
                for o, n, stride, d in zip(here, inner[0], strides, dilation, strict=True)
            )
            inner = inner[1:]
            guards = tuple(map(Guard, here, sizes))
        case "expand":  # x[0] = y[i]; x[i] where the size turns out to be the wanted one; x[-1] where it is 0
            dims, wanted = step.arguments
            dims = tuple(d for d in dims if sizes[d] != as_expr(wanted[d]))
            here = tuple(minimum(i, sizes[d] - 1) if d in dims else i for d, i in enumerate(here))
            here = tuple(const(0) if d in dims and sizes[d] == 1 else i for d, i in enumerate(here))
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
            here = here[:start] + _unflatten(here[start], sizes[start:end]) + here[start + 1 :]
        case "ravel":  # x[i][j] = y[i, j]
            (counts,) = step.arguments
            parts = []
            for count in counts:
                parts.append(here[:count])
                here = here[count:]
            return (*outer, *parts, *inner), guards
        case "pad":  # x[i - before] = y[i]
            (before,) = step.arguments
            here = tuple(i - as_expr(b) for i, b in zip(here, before, strict=True))
            guards = tuple(map(Guard, here, sizes))
        case "index":  # x[start + i * stride] = y[i]; a stride of 0 took the dimension away
            starts, strides, kept_dims = step.arguments
            kept = iter(here)
            here = tuple(
                as_expr(start) + (next(kept) * stride if d in kept_dims else 0)
                for d, (start, stride) in enumerate(zip(starts, strides, strict=True))
            )
            guards = tuple(Guard(here[d], sizes[d]) for d in range(len(sizes)) if d not in kept_dims)
        case _:
            raise AssertionError(step.operation)
    return (*outer, here, *inner), guards


def _unflatten(t: Expr, sizes: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Row-major; the first dimension takes what overflows, so guards look at `t` itself."""
    indices: list[Expr] = []
    for size in reversed(sizes[1:]):
        size = size if size != 0 else const(1)  # an empty dimension has no element to misplace
        indices.append(t % size)
        t = t // size
    if sizes:
        indices.append(t)
    return tuple(reversed(indices))


def tile(
    arrangement: Arrangement, level: int, tile_shape, strides=None, dilation=None, floor_mode=False
) -> Arrangement:
    """Outer size `div(size - dilation * (tile - 1) - 1, stride) + 1`, never below 0, `div` rounding up (or down)."""
    fail = _failure("tile", arrangement, level)
    shape = arrangement.levels[level]
    tile_shape = _per_dimension(tile_shape, shape, "tile_shape", fail)
    strides = _per_dimension((-1,) * len(shape) if strides is None else strides, shape, "strides", fail)
    dilation = _per_dimension((1,) * len(shape) if dilation is None else dilation, shape, "dilation", fail)
    rows = [
        _tile_dimension(*row, floor_mode, fail)
        for row in zip(range(len(shape)), shape, tile_shape, strides, dilation, strict=True)
    ]
    outer, inner, steps = (tuple(row[i] for row in rows) for i in range(3))
    return arrangement.then(Step("tile", level, shape, (steps, dilation)), outer, inner)


def _tile_dimension(dim, size, tile_size, stride, dilation, floor_mode, fail):
    """`(outer size, inner size, stride)`; the one tile of a whole dimension has stride 0."""
    if _below(dilation, 1):
        raise fail(f"the dilation of dimension {dim} is {dilation}", "give 1 or more")
    if tile_size == -1:
        return 1, size, 0
    if stride == -1:
        stride = tile_size
    if _below(tile_size, 0) or _below(stride, 1):
        raise fail(
            f"dimension {dim} has tile size {tile_size} and stride {stride}",
            "a tile size is positive, or -1 for the whole dimension; a stride is positive, or -1 for the tile size",
        )
    span = size - dilation * (tile_size - 1) - 1
    outer = (span if floor_mode else span + stride - 1) // stride + 1
    if isinstance(outer, int):
        return max(outer, 0), tile_size, stride
    adjacent = dilation == 1 and stride == tile_size
    return outer if adjacent or _never_negative(outer) else largest(outer, 0), tile_size, stride


def _never_negative(size: Symbol, sizes: frozenset[str] | None = None) -> bool:
    """Whether it is never below 0 where no name in it is; with `sizes`, where those and block sizes are not."""
    facts = Facts()
    for name, leaf in size.leaves.items():
        if sizes is None or leaf.meta or name in sizes:
            facts = facts.bind(name, 0)
    return is_nonnegative(size.expr, facts)


def expand(arrangement: Arrangement, level: int, shape) -> Arrangement:
    """-1 keeps a size; new dimensions come first, as in PyTorch."""
    fail = _failure("expand", arrangement, level)
    target = _sizes(shape, "shape", fail)
    added = len(target) - len(arrangement.levels[level])
    if added < 0:
        raise fail(f"the target {target} has fewer dimensions", "give one size a dimension, -1 to keep it")
    for _ in range(added):
        arrangement = unsqueeze(arrangement, level, 0)
    before = arrangement.levels[level]
    after, dims = [], []
    for dim, (size, wanted) in enumerate(zip(before, target, strict=True)):
        if dim < added and _below(wanted, 0):
            raise fail(f"the new dimension {dim} has size {wanted}", "-1 keeps a size, which a new dimension has not")
        if wanted == -1 or _same(size, wanted):
            after.append(size)
        elif _below(wanted, 0) or (isinstance(size, int) and size != 1):
            raise fail(f"dimension {dim} has size {size}, which cannot become {wanted}", "only a size of 1 expands")
        else:
            after.append(wanted)
            dims.append(dim)
    return arrangement.then(Step("expand", level, before, (tuple(dims), tuple(after))), tuple(after))


def unsqueeze(arrangement: Arrangement, level: int, dim) -> Arrangement:
    before = arrangement.levels[level]
    dim = _dimension(dim, len(before) + 1, _failure("unsqueeze", arrangement, level))
    return arrangement.then(Step("unsqueeze", level, before, (dim,)), (*before[:dim], 1, *before[dim:]))


def squeeze(arrangement: Arrangement, level: int, dims) -> Arrangement:
    """Takes dimensions of size 1 away."""
    fail = _failure("squeeze", arrangement, level)
    before = arrangement.levels[level]
    dims = _dimensions(dims, before, fail)
    for dim in dims:
        if isinstance(before[dim], int) and before[dim] != 1:
            raise fail(f"dimension {dim} has size {before[dim]}", "only a dimension of size 1 can be squeezed")
    after = tuple(size for dim, size in enumerate(before) if dim not in dims)
    return arrangement.then(Step("squeeze", level, before, (dims,)), after)


def permute(arrangement: Arrangement, level: int, dims) -> Arrangement:
    fail = _failure("permute", arrangement, level)
    before = arrangement.levels[level]
    dims = _dimensions(dims, before, fail)
    if len(dims) != len(before):
        raise fail(f"{dims} names {len(dims)} of {len(before)} dimensions", "name every dimension once")
    return arrangement.then(Step("permute", level, before, (dims,)), tuple(before[dim] for dim in dims))


def flatten(arrangement: Arrangement, level: int, start_dim=None, end_dim=None) -> Arrangement:
    """Dimensions `start_dim` to `end_dim`, exclusive, become one."""
    fail = _failure("flatten", arrangement, level)
    before = arrangement.levels[level]
    start = 0 if start_dim is None else _dimension(start_dim, max(len(before), 1), fail)
    end = len(before) if end_dim is None else _dimension(end_dim, len(before) + 1, fail, wrap=len(before))
    if before and end <= start:
        raise fail(f"no dimension lies from {start} to {end}, exclusive", "end_dim must be beyond start_dim")
    size = 1
    for factor in before[start:end]:
        size = size * factor
    return arrangement.then(Step("flatten", level, before, (start, end)), (*before[:start], size, *before[end:]))


def ravel(arrangement: Arrangement, level: int) -> Arrangement:
    """This level and all within it become one level, outermost dimensions first."""
    joined = arrangement.levels[level:]
    step = Step("ravel", level, joined[0], (tuple(map(len, joined)),))
    return arrangement.then(step, tuple(size for shape in joined for size in shape), replaced=len(joined))


def pad(arrangement: Arrangement, level: int, padding) -> Arrangement:
    """`padding` is `((before, after), ...)`, one pair a dimension; what is added is out of bounds."""
    fail = _failure("pad", arrangement, level)
    before = arrangement.levels[level]
    pairs = tuple(padding) if isinstance(padding, tuple | list) else (padding,)
    if len(pairs) != len(before) or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise fail(f"the padding is {padding}", f"give {len(before)} pairs (before, after), one a dimension")
    pairs = tuple(_sizes(pair, "padding", fail) for pair in pairs)
    for dim, pair in enumerate(pairs):
        if any(_below(amount, 0) for amount in pair):
            raise fail(f"dimension {dim} is padded by {pair}", "an amount is 0 or more; a slice takes elements away")
    after = tuple(first + size + last for size, (first, last) in zip(before, pairs, strict=True))
    return arrangement.then(Step("pad", level, before, (tuple(pair[0] for pair in pairs),)), after)


def paddings(step: Step) -> tuple[Size, ...]:
    """The amounts before and after each dimension that a step pads; none for any other step."""
    if step.operation != "pad":
        return ()
    (before,), (padded,) = step.arguments, step.after
    after = tuple(whole - first - size for whole, first, size in zip(padded, before, step.shape, strict=True))
    return (*before, *after)


def index(arrangement: Arrangement, level: int, key) -> Arrangement:
    """Ints, slices, None and `...`, as in NumPy."""
    fail = _failure("indexing", arrangement, level)
    before = arrangement.levels[level]
    items = _full_key(key, len(before), fail)
    sizes = frozenset(name for size in arrangement.source.sizes for name in leaves_of(size))
    starts, strides, kept, after, new = [], [], [], [], []
    for item in items:
        if item is None:
            new.append(len(after) + len(new))
            continue
        dim = len(starts)
        if isinstance(item, slice):
            start, length, stride = _slice(item, before[dim], dim, sizes, fail)
            kept.append(dim)
            after.append(length)
        else:
            start, stride = _position(item, before[dim], dim, sizes, fail), 0
        starts.append(start)
        strides.append(stride)
    step = Step("index", level, before, (tuple(starts), tuple(strides), tuple(kept)))
    arrangement = arrangement.then(step, tuple(after))
    for dim in new:
        arrangement = unsqueeze(arrangement, level, dim)
    return arrangement


def _full_key(key, ndim, fail):
    items = list(key) if isinstance(key, tuple) else [key]
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    given = sum(item is not None and item is not Ellipsis for item in items)
    if len(dots) > 1 or given > ndim:
        raise fail(f"{key} has {given} indices for {ndim} dimensions", "give at most one a dimension, and one `...`")
    at = dots[0] if dots else len(items)
    return [*items[:at], *[slice(None)] * (ndim - given), *items[at + 1 :]]


def _position(item, size: int | Symbol, dim, sizes, fail):
    try:
        at = as_size(item)
    except (TypeError, ArrangementError):
        raise fail(f"dimension {dim} is indexed by {item!r}", "use ints, symbols, slices, None and ...") from None
    if isinstance(at, int) and isinstance(size, int) and not -size <= at < size:
        raise fail(f"index {at} is out of range for dimension {dim} of size {size}", f"use {-size} to {size - 1}")
    return _wrapped(at, size, sizes)


def _slice(item: slice, size, dim, sizes, fail):
    """`(start, length, stride)`, symbolic where the size or a bound is; what lies outside is cut off, as in NumPy."""
    try:
        start, stop = (None if bound is None else as_size(bound) for bound in (item.start, item.stop))
        step = 1 if item.step is None else as_size(item.step)
    except (TypeError, ArrangementError):
        raise fail(f"dimension {dim} is sliced by {item}", "the bounds of a slice are ints or symbols") from None
    if not isinstance(step, int) or step == 0:
        raise fail(f"dimension {dim} is sliced with step {step}", "a step is an int other than 0")
    if all(bound is None or isinstance(bound, int) for bound in (start, stop, size)) and isinstance(size, int):
        chosen = range(*slice(start, stop, step).indices(size))
        return chosen.start, len(chosen), step
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def clamp(bound, default):
        if bound is None:
            return default
        wrapped = _wrapped(bound, size, sizes)
        if _below(bound, 0):
            return largest(wrapped, low)
        inside = wrapped if wrapped is bound else largest(wrapped, low)
        return inside if inside == low else smallest(inside, high)

    if step > 0:
        start, stop = clamp(start, low), clamp(stop, high)
        length = stop - start if step == 1 else (stop - start + (step - 1)) // step
    else:
        start, stop = clamp(start, high), clamp(stop, low)
        length = (start - stop + (-step - 1)) // -step
    if isinstance(length, int):
        return start, max(length, 0), step
    return start, length if _never_negative(length, sizes) else largest(length, 0), step


def _wrapped(index: int | Symbol, size: int | Symbol, sizes: frozenset[str]):
    """An index that counts from the end where it is negative; `index + size * (index < 0)` where that is not known."""
    if isinstance(index, int):
        return size - -index if index < 0 else index
    if _never_negative(index, sizes):
        return index
    return index + size * smallest(largest(-index, 0), 1)


def _failure(operation, arrangement, level):
    """A function that makes the error: which operation, on what, where in the user's source, and the remedy."""

    def fail(what, remedy):
        place = user_line()
        tensor = f"`{arrangement.source.name}`" + (f", level {level}," if len(arrangement.levels) > 1 else "")
        message = f"{operation} of {tensor} of shape {arrangement.levels[level]}: {what}; {remedy}"
        return ArrangementError(message + (f"\n  at {place}" if place else ""))

    return fail


def _sizes(values, name, fail) -> Shape:
    try:
        return tuple(map(as_size, values if isinstance(values, tuple | list) else (values,)))
    except (TypeError, ArrangementError) as error:
        raise fail(f"{name} is {values!r}: {error}", "sizes are ints or symbols") from None


def _per_dimension(values, shape, name, fail) -> Shape:
    values = _sizes(values, name, fail)
    if len(values) != len(shape):
        raise fail(f"{name} {values} has {len(values)} entries", f"give {len(shape)}, one a dimension")
    return values


def _dimension(dim, count, fail, wrap=None) -> int:
    wrap = count if wrap is None else wrap
    if isinstance(dim, bool) or not hasattr(dim, "__index__") or not -wrap <= dim.__index__() < count:
        raise fail(f"{dim!r} is no dimension of it", f"use {-wrap} to {count - 1}")
    return dim.__index__() % wrap if dim < 0 else dim.__index__()


def _dimensions(dims, shape, fail) -> tuple[int, ...]:
    dims = tuple(_dimension(dim, len(shape), fail) for dim in (dims if isinstance(dims, tuple | list) else (dims,)))
    if len(set(dims)) != len(dims):
        raise fail(f"{dims} names a dimension twice", "name each once")
    return dims


def _below(value, bound) -> bool:
    return isinstance(value, int) and value < bound


def _same(a, b) -> bool:
    return as_expr(a) == as_expr(b)

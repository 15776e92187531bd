"""Find the entry of a jagged parameter that an access is in: where it begins, and how long it is.

    x: Tensor(3, jagged_dim=1), x.tile((1, 64, 16))
->  x[b, start + 64 * p + lane, ...] where 64 * p + lane < length
        with start = offsets[b], length = offsets[b + 1] - offsets[b], each read once a program

In the arrangement the entry's length takes the place of the dimension's size, which is that of the longest entry; but
for the grid, which is the same for all entries: a tile that begins past its entry's end is overhang.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ninetoothed import ir
from ninetoothed.arrangement.guards import Guard
from ninetoothed.arrangement.lowering import EntryBounds, Indices, bind_sizes, source_indices
from ninetoothed.arrangement.value import Arrangement
from ninetoothed.definition import Jagged
from ninetoothed.expr import Expr, const, simplify, var
from ninetoothed.frontend.context import TraceContext
from ninetoothed.frontend.numbers import numeric
from ninetoothed.ir import Access, TileType, Value


@dataclass(frozen=True)
class Entry:
    """One entry of a jagged parameter: the arrangement of its values, where it begins, and its length."""

    arrangement: Arrangement
    start: Expr
    length: Expr
    dim: int

    def bounds(self, context: TraceContext, parameter: int) -> EntryBounds:
        """Return what lowering has to know of it."""
        return EntryBounds(self.dim, self.start, self.length, context.levels[parameter][0])


def entry_of(context: TraceContext, parameter: int, levels: Indices, lanes: Iterable[str] = ()) -> Entry | None:
    """Return the entry of a jagged parameter that the element at `levels` is in; None of one that is not jagged.

    lanes: the variables that run over the axes of a tile. Raises `ApplicationError` where a tile has several entries.
    """
    own = context.definition.parameters[parameter]
    if own.jagged is None or context.is_sketch:
        return None
    number = source_indices(context.arrangements[parameter], levels, context.facts)[0]
    bindings = context.builder.bindings(number)
    if not number.variables.isdisjoint(lanes) or any(not value.type.is_scalar for _, value in bindings):
        raise context.error(
            f"a tile of {own.name!r} has elements of several entries of its batch (dimension 0), whose lengths differ;"
            f" tile that dimension by 1, and squeeze it, so that each program or round works on one entry"
        )
    start, length = _numbers(context, own.jagged, own.name, number, bool(bindings))
    sizes = {**context.bindings, str(own.jagged.longest): length}
    return Entry(bind_sizes(own.arrangement, sizes), start, length, own.jagged.dim)


def entry_of_tile(context: TraceContext, parameter: int, indices: Indices) -> Entry | None:
    """Return the entry that a tile is in, all of it; None where that is known of its elements alone."""
    own = context.definition.parameters[parameter]
    if own.jagged is None or context.is_sketch:
        return None
    inner = context.levels[parameter][len(indices) :]
    open_ = tuple(tuple(f"inner_{level}_{dim}" for dim in range(len(shape))) for level, shape in enumerate(inner))
    levels = (*indices, *(tuple(map(var, names)) for names in open_))
    number = source_indices(context.arrangements[parameter], levels, context.facts)[0]
    sizes = {name: size for names, shape in zip(open_, inner, strict=True) for name, size in zip(names, shape)}
    if any(size != 1 for name, size in sizes.items() if name in number.variables):
        return None
    return entry_of(context, parameter, (*indices, *(tuple(const(0) for _ in shape) for shape in inner)))


def _numbers(context: TraceContext, jagged: Jagged, name: str, number: Expr, is_local: bool) -> tuple[Expr, Expr]:
    """Return names for the begin and the length of the entry with a number; they are read once for a program."""
    is_local = is_local or not number.variables <= context.builder.sizes.union(context.axes)
    leader = context.definition.parameters[context.definition.positions[context.builder.leaders[str(jagged.longest)]]]
    assert leader.jagged is not None
    key = (leader.name, number)
    if is_local:
        found = _read(context, leader.jagged, name, number)
    elif key not in context.entries:
        with context.builder.outside():
            found = context.entries[key] = _read(context, leader.jagged, name, number)
    else:
        found = context.entries[key]
    start, length = map(context.builder.expr_of, found)
    facts = context.facts
    for size, most in ((start, None), (length, context.number(jagged.longest))):
        facts = facts if str(size) in facts.ranges else facts.bind(str(size), 0, most)
    context.builder.facts = facts
    return start, length


def _read(context: TraceContext, jagged: Jagged, name: str, number: Expr) -> tuple[Value, Value]:
    """Read where an entry begins, and how long it is."""
    builder, positions = context.builder, context.definition.positions
    has_lengths = context.argument(positions[jagged.sharing]).value[0]
    guards = Guard(number, context.number(jagged.sizes[0])).unproved(context.facts)

    def loaded(parameter: str, index: Expr) -> Value:
        index = simplify(index, context.facts)
        type = TileType(numeric(context.argument(positions[parameter]).dtype))
        bindings = builder.bindings(index, *(e for guard in guards for e in guard.parts))
        result = Value(type)
        place = Access(parameter, type, (index,), guards, 0, (), bindings)
        builder.emit(ir.Load(result, place, location=builder.location))
        return result

    start = loaded(jagged.offsets, number)
    if has_lengths:
        length = loaded(jagged.lengths, number)
    else:
        length = builder.binary("sub", loaded(jagged.offsets, number + 1), start)
    start, length = builder.cast(start, builder.index_type), builder.cast(length, builder.index_type)
    return builder.named(start, f"{name}_start"), builder.named(length, f"{name}_length")

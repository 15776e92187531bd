"""Pass: compute what follows a product's loop in two subtiles of half the columns, in half the shared memory.

    loop; store(c, cast(accumulator))
->  loop; left, right = split(accumulator); store(c[:, :n / 2], cast(left)); store(c[:, n / 2:], cast(right))

The loads of the next tile can then be under way while the last one is stored.
"""

from __future__ import annotations

from dataclasses import replace

from ninetoothed import ir
from ninetoothed.expr import const
from ninetoothed.passes.operations import producers
from ninetoothed.passes.reduction_match import around
from ninetoothed.passes.subtile import AxisSlice, Inseparable, Subtile, SubtileBuilder, subtile_type

# Rows shorter than that are not worth it.
FEWEST_COLUMNS = 128


def subtile(program: ir.Program, loop: ir.For) -> ir.Program | None:
    """Compute all that follows `loop` in two subtiles; None where there is more than one tile to store."""
    before, after = around(program, loop)
    stores = [operation for operation in after if isinstance(operation, ir.Store)]
    lanes = stores[0].access.type.lanes if len(stores) == 1 else ()
    if len(lanes) < 2 or lanes[-1] < FEWEST_COLUMNS:
        return None
    sides = tuple((AxisSlice(len(lanes) - 1, lanes[-1] // 2, const(side * lanes[-1] // 2)),) for side in (0, 1))
    try:
        return replace(program, body=(*before, loop, *_in_two(after, stores[0], (sides[0], sides[1]))))
    except Inseparable:
        return None


def _in_two(after: ir.Block, store: ir.Store, sides: tuple[Subtile, Subtile]) -> ir.Block:
    """Return operations that do the same, one side after the other."""

    def outside(value: ir.Value, piece: Subtile) -> ir.Value:
        if not piece:
            return value
        last = len(value.type.lanes) - 1
        if piece[0].axis != last:
            raise Inseparable
        # `expand_dims` may have moved the axis.
        first, second = (tuple(replace(part, axis=last) for part in side) for side in sides)
        builder.operations += _split(value, (first, second), builder.known)
        return builder.known[value, piece]

    builder = SubtileBuilder(producers(after), outside)
    for side in sides:
        builder.operations.append(builder.stored(store, side))
    return tuple(builder.operations)


def _split(
    value: ir.Value, sides: tuple[Subtile, Subtile], known: dict[tuple[ir.Value, Subtile], ir.Value]
) -> ir.Block:
    """Return operations for `left, right = split(permute(reshape(value, (..., 2, width / 2))))`."""
    *rows, width = value.type.lanes
    shape = tuple(map(const, rows))
    pairs = replace(value.type, shape=(*shape, const(2), const(width // 2)), lanes=(*rows, 2, width // 2))
    last = replace(value.type, shape=(*shape, const(width // 2), const(2)), lanes=(*rows, width // 2, 2))
    reshaped, permuted = ir.Value(pairs), ir.Value(last)
    results = tuple(ir.Value(subtile_type(value.type, sides[0]), hint) for hint in ("left", "right"))
    known |= {(value, side): result for side, result in zip(sides, results, strict=True)}
    order = (*range(len(rows)), len(rows) + 1, len(rows))
    return (
        ir.Apply((reshaped,), "reshape", (value,)),
        ir.Apply((permuted,), "permute", (reshaped,), (("dims", order),)),
        ir.Apply(results, "split", (permuted,)),
    )

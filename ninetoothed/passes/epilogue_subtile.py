"""Pass: what follows a product's loop is done in two halves of the columns, so that it needs half the shared memory.

    loop; store(c, cast(accumulator))
->  loop; left, right = split(accumulator); store(c[:, :n / 2], cast(left)); store(c[:, n / 2:], cast(right))

The loads of the next tile can then be under way while the last one is stored.
"""

from __future__ import annotations

from dataclasses import replace

from ninetoothed import ir
from ninetoothed.expr import const
from ninetoothed.passes.subtile import Cut, Cuts, Pieces, Whole, cut_type, producers_of

# Rows shorter than that are not worth it.
FEWEST_COLUMNS = 128


def subtile(program: ir.Program, loop: ir.For) -> ir.Program:
    """The program with all that follows `loop` in halves; as it is where there is more than one tile's store to do."""
    position = program.body.index(loop) + 1
    after = program.body[position:]
    stores = [operation for operation in after if isinstance(operation, ir.Store)]
    lanes = stores[0].access.type.lanes if len(stores) == 1 else ()
    if len(lanes) < 2 or lanes[-1] < FEWEST_COLUMNS:
        return program
    sides = tuple((Cut(len(lanes) - 1, lanes[-1] // 2, const(side * lanes[-1] // 2)),) for side in (0, 1))
    try:
        return replace(program, body=(*program.body[:position], *_in_halves(after, stores[0], sides)))
    except Whole:
        return program


def _in_halves(after: ir.Block, store: ir.Store, sides: tuple[Cuts, Cuts]) -> ir.Block:
    def outside(value: ir.Value, cuts: Cuts) -> ir.Value:
        if not cuts:
            return value
        last = len(value.type.lanes) - 1
        if cuts[0].axis != last:
            raise Whole
        # `expand_dims` may have moved the axis.
        first, second = (tuple(replace(cut, axis=last) for cut in side) for side in sides)
        work.operations += _split(value, (first, second), work.known)
        return work.known[value, cuts]

    work = Pieces(producers_of(after), outside)
    for side in sides:
        work.operations.append(work.stored(store, side))
    return tuple(work.operations)


def _split(value: ir.Value, sides: tuple[Cuts, Cuts], known: dict) -> ir.Block:
    """`left, right = split(permute(reshape(value, (..., 2, width / 2))))`."""
    *rows, width = value.type.lanes
    shape = tuple(map(const, rows))
    pairs = replace(value.type, shape=(*shape, const(2), const(width // 2)), lanes=(*rows, 2, width // 2))
    last = replace(value.type, shape=(*shape, const(width // 2), const(2)), lanes=(*rows, width // 2, 2))
    reshaped, permuted = ir.Value(pairs), ir.Value(last)
    halves = tuple(ir.Value(cut_type(value.type, sides[0]), hint) for hint in ("left", "right"))
    known |= {(value, side): half for side, half in zip(sides, halves, strict=True)}
    order = (*range(len(rows)), len(rows) + 1, len(rows))
    return (
        ir.Apply((reshaped,), "reshape", (value,)),
        ir.Apply((permuted,), "permute", (reshaped,), (("dims", order),)),
        ir.Apply(halves, "split", (permuted,)),
    )

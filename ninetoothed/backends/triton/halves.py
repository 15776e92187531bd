"""Pass: what follows a product's loop is done in two halves of the columns, so that it needs half the shared memory.

    loop; store(c, cast(accumulator))
->  loop; left, right = split(accumulator); store(c[:, :n / 2], cast(left)); store(c[:, n / 2:], cast(right))

The loads of the next tile can then be under way while the last one is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ninetoothed import ir
from ninetoothed.backends.triton.functions import ELEMENTWISE
from ninetoothed.expr import const, var

# Rows shorter than that are not worth it.
FEWEST_COLUMNS = 128


def halved(program: ir.Program, loop: ir.For) -> ir.Program:
    """The program with all that follows `loop` in halves; as it is where there is more than one tile's store to do."""
    position = program.body.index(loop) + 1
    after = program.body[position:]
    stores = [operation for operation in after if isinstance(operation, ir.Store)]
    if len(stores) != 1 or not all(
        isinstance(o, ir.Constant | ir.Argument | ir.Apply | ir.Load | ir.Store) for o in after
    ):
        return program
    (store,) = stores
    lanes = store.access.type.lanes
    if len(lanes) < 2 or lanes[-1] < FEWEST_COLUMNS or not _is_even(store.access):
        return program
    work = _Work({result: operation for operation in after for result in ir.results(operation)}, lanes[-1])
    try:
        for side in (0, 1):
            value = work.half(store.value, side)
            work.operations.append(replace(store, access=work.access(store.access, side), value=value))
    except _Whole:
        return program
    kept = tuple(o for o in after if o is not store and not any(result in work.replaced for result in ir.results(o)))
    read = {value for operation in kept for value in ir.operands(operation)}
    if read & work.replaced:
        return program
    return replace(program, body=(*program.body[:position], *kept, *work.operations))


class _Whole(Exception):
    """Something that has no halves."""


def _is_even(access: ir.Access) -> bool:
    return not access.bindings and any(lane.axis == len(access.type.lanes) - 1 for lane in access.lanes)


@dataclass
class _Work:
    """What has been halved: `producers` are the operations to do by halves, `width` the columns of the whole."""

    producers: dict[ir.Value, ir.Operation]
    width: int
    halves: dict[tuple[ir.Value, int], ir.Value] = field(default_factory=dict)
    replaced: set[ir.Value] = field(default_factory=set)
    operations: list[ir.Operation] = field(default_factory=list)

    def half(self, value: ir.Value, side: int) -> ir.Value:
        """The left (0) or right (1) half of a value; of one without columns, itself."""
        if not value.type.lanes or value.type.lanes[-1] != self.width:
            if value.type.lanes and value.type.lanes[-1] != 1:
                raise _Whole
            return value
        if (value, side) not in self.halves:
            operation = self.producers.get(value)
            if operation is None:
                self._split(value)
            else:
                self.halves[value, side] = self._redo(operation, value, side)
                self.replaced.add(value)
        return self.halves[value, side]

    def type(self, type: ir.TileType) -> ir.TileType:
        return replace(
            type, shape=(*type.shape[:-1], const(self.width // 2)), lanes=(*type.lanes[:-1], self.width // 2)
        )

    def access(self, access: ir.Access, side: int) -> ir.Access:
        axis = len(access.type.lanes) - 1
        if not _is_even(access) or access.type.lanes[-1] != self.width:
            raise _Whole
        (lane,) = (lane for lane in access.lanes if lane.axis == axis)
        new = ir.Lane(f"{lane.name}_half", axis, lane.count // 2)
        moved = {lane.name: var(new.name) + side * new.count}
        return replace(
            access,
            type=self.type(access.type),
            indices=tuple(index.subs(moved) for index in access.indices),
            guards=tuple(replace(g, index=g.index.subs(moved), size=g.size.subs(moved)) for g in access.guards),
            lanes=tuple(new if other is lane else other for other in access.lanes),
        )

    def _redo(self, operation: ir.Operation, value: ir.Value, side: int) -> ir.Value:
        result = ir.Value(self.type(value.type), value.hint)
        match operation:
            case ir.Load(access=access):
                new = replace(operation, result=result, access=self.access(access, side))
            case ir.Apply(function="expand_dims") if operation.attribute("axis") % len(value.type.lanes) == (
                len(value.type.lanes) - 1
            ):
                raise _Whole
            case ir.Apply(function=function, operands=operands) if function in ELEMENTWISE | {"expand_dims"}:
                halves = tuple(self.half(operand, side) for operand in operands)
                new = replace(operation, results=(result,), operands=halves)
            case _:
                raise _Whole
        self.operations.append(new)
        return result

    def _split(self, value: ir.Value) -> None:
        """`left, right = split(permute(reshape(value, (..., 2, width / 2))))`."""
        *rows, _ = value.type.lanes
        shape = tuple(const(count) for count in rows)
        pairs = replace(value.type, shape=(*shape, const(2), const(self.width // 2)), lanes=(*rows, 2, self.width // 2))
        last = replace(value.type, shape=(*shape, const(self.width // 2), const(2)), lanes=(*rows, self.width // 2, 2))
        reshaped, permuted = ir.Value(pairs), ir.Value(last)
        sides = tuple(ir.Value(self.type(value.type), hint) for hint in ("left", "right"))
        rank = len(pairs.lanes)
        order = (*range(rank - 2), rank - 1, rank - 2)
        self.operations += [
            ir.Apply((reshaped,), "reshape", (value,)),
            ir.Apply((permuted,), "permute", (reshaped,), (("dims", order),)),
            ir.Apply(sides, "split", (permuted,)),
        ]
        for side, half in enumerate(sides):
            self.halves[value, side] = half

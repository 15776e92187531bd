"""How the parts of a sum meet: each is left in memory, and the program that comes last adds up what all have left.

    store(workspace[slot, part], total)
    if atomic_add(semaphores[slot], 1) == parts - 1:
        total = workspace[slot, 0]; for other in range(1, parts): total += workspace[slot, other]
        ...
        semaphores[slot] = 0

Parts are added in their own order, whichever program does it: equal calls give equal results. The last program leaves
the semaphores as it found them, at zero, for the next launch. Rows of which nothing will be stored are left out, where
the number of parts is the call's.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.dtypes import DType, PointerType, float32, int1, int32
from ninetoothed.expr import Expr, const, var
from ninetoothed.lowering import Guard
from ninetoothed.passes.clone import Copies
from ninetoothed.passes.subtile import is_cut_alike

_SLOT, _OTHER = "tile_number", "other_part"


@dataclass(frozen=True)
class Buffer:
    """Memory that a kernel takes beside its arguments: `count` elements; zeros at the start where `is_zeroed`."""

    name: str
    dtype: DType
    count: Expr
    is_zeroed: bool = False


@dataclass(frozen=True)
class Parts:
    """How many parts a sum has, and which of them a program does.

    They meet in one of `slots`, for all of which a workspace of so many `tiles` does.
    """

    count: Expr
    part: Expr
    slot: Expr
    slots: Expr
    tiles: Expr


@dataclass(frozen=True)
class Met:
    """What a program does instead of a loop and what follows it, and the memory that this takes."""

    block: ir.Block
    parameters: tuple[ir.Parameter, ...]
    buffers: tuple[Buffer, ...]


def in_parts(loop: ir.For, after: ir.Block, parts: Parts, taken: Container[str]) -> Met:
    """A sum in parts; what follows it is done by the last program, and at once by one whose tile is of one part.

    taken: names that the memory cannot have.
    """
    return _Meeting(loop, after, parts, taken).met()


def if_more(count: Expr, many: ir.Block, one: ir.Block) -> ir.Block:
    """What a program does where there is more than one of something, and what else."""
    number, single, is_more = ir.Value(ir.TileType(int32)), ir.Value(ir.TileType(int32)), ir.Value(ir.TileType(int1))
    return (
        ir.Index(number, count),
        ir.Constant(single, 1),
        ir.Apply((is_more,), "gt", (number, single)),
        ir.If(is_more, many, (), one, (), ()),
    )


class _Meeting:
    def __init__(self, loop: ir.For, after: ir.Block, parts: Parts, taken: Container[str]):
        self._loop, self._after, self._parts = loop, after, parts
        self._type = loop.results[0].type
        self._slot = ir.Value(ir.TileType(int32), _SLOT)
        self._workspace, self._semaphores = (_unused(name, taken) for name in ("workspace", "semaphores"))
        # A number of parts that is known is added up in one go, in which masks would cost more than they spare.
        self._guards = () if parts.count.is_constant else _guards_of_rows(after, loop.results[0])

    def met(self) -> Met:
        parts = self._parts
        start, stop = (self._loop.stop * part // parts.count for part in (parts.part, parts.part + 1))
        meeting = self._meeting()
        then = meeting if parts.count.is_constant else if_more(parts.count, meeting, self._after)
        return Met((replace(self._loop, start=start, stop=stop), *then), *self._buffers())

    def _buffers(self) -> tuple[tuple[ir.Parameter, ...], tuple[Buffer, ...]]:
        parts, lanes = self._parts, self._type.lanes
        sizes = (parts.tiles, *map(const, lanes))
        strides = tuple(const(math.prod(lanes[axis:])) for axis in range(len(lanes) + 1))
        parameters = (
            ir.Parameter(self._workspace, "tensor", float32, sizes, strides),
            ir.Parameter(self._semaphores, "tensor", int32, (parts.slots,), (const(1),)),
        )
        buffers = (
            Buffer(self._workspace, float32, parts.tiles * math.prod(lanes)),
            Buffer(self._semaphores, int32, parts.slots, is_zeroed=True),
        )
        return parameters, buffers

    def _meeting(self) -> ir.Block:
        """Leave the part, and have the last program do what follows the sum."""
        scalar = ir.TileType(int32)
        pointer = ir.TileType(PointerType(int32, self._semaphores))
        base, semaphore, arrived = ir.Value(pointer), ir.Value(pointer, "semaphore"), ir.Value(scalar, "arrived")
        one, zero, last, is_last = *(ir.Value(scalar) for _ in range(3)), ir.Value(ir.TileType(int1))
        total, sums = self._sum()
        rest = (*sums, *Copies(values={self._loop.results[0]: total}).block(self._after))
        leave = (ir.Constant(zero, 0), ir.Apply((), "store_pointer", (semaphore, zero)))
        return (
            ir.Index(self._slot, self._parts.slot),
            ir.Store(self._access(self._parts.part), self._loop.results[0]),
            ir.Apply((), "debug_barrier", ()),
            ir.Apply((base,), "data_ptr", (), (("parameter", self._semaphores),)),
            ir.Apply((semaphore,), "add", (base, self._slot)),
            ir.Constant(one, 1),
            ir.Apply((arrived,), "atomic_add", (semaphore, one)),
            ir.Index(last, self._parts.count - 1),
            ir.Apply((is_last,), "eq", (arrived, last)),
            ir.If(is_last, (*rest, *leave), (), (), (), ()),
        )

    def _sum(self) -> tuple[ir.Value, ir.Block]:
        """The parts in their order."""
        hint = self._loop.results[0].hint
        first, loaded = ir.Value(self._type, hint), ir.Value(self._type, "partial")
        total, more, result = (ir.Value(self._type, hint) for _ in range(3))
        body = (ir.Load(loaded, self._access(var(_OTHER))), ir.Apply((more,), "add", (total, loaded)))
        bounds = (const(1), self._parts.count, const(1))
        loop = ir.For(_OTHER, *bounds, (), (first,), (total,), body, (more,), (result,))
        return result, (ir.Load(first, self._access(const(0))), loop)

    def _access(self, part: Expr) -> ir.Access:
        lanes = tuple(ir.Lane(_lane(axis), axis, count) for axis, count in enumerate(self._type.lanes))
        indices = (var(_SLOT) * self._parts.count + part, *(var(lane.name) for lane in lanes))
        slot = ((_SLOT, self._slot),)
        return ir.Access(self._workspace, self._type, indices, self._guards, lanes=lanes, bindings=slot)


def _lane(axis: int) -> str:
    return f"part_{axis}"


def _guards_of_rows(after: ir.Block, total: ir.Value) -> tuple[Guard, ...]:
    """What holds for each row of which something is stored."""
    stores = [operation for operation in after if isinstance(operation, ir.Store)]
    rank = len(total.type.lanes)
    if len(stores) != 1 or rank != 2 or not is_cut_alike(after, stores[0].value, total, axis=0):
        return ()
    access = stores[0].access
    columns = {lane.name for lane in access.lanes if lane.axis == 1} | {name for name, _ in access.bindings}
    moved = {lane.name: var(_lane(lane.axis)) for lane in access.lanes}
    return tuple(
        replace(guard, index=guard.index.subs(moved), size=guard.size.subs(moved))
        for guard in access.guards
        if columns.isdisjoint(guard.index.variables | guard.size.variables)
    )


def _unused(name: str, taken: Container[str]) -> str:
    while name in taken:
        name += "_"
    return name

"""Pass: a long sum is shared out over several programs, the last of which to finish adds up what all have found.

    total = zeros; for k in range(n): total += f(k)
    store(c, g(total))
->  total = zeros; for k in range(n * part // parts, n * (part + 1) // parts): total += f(k)
    store(partials[slot, part], total)
    if atomic_add(arrivals[slot], 1) == parts - 1:
        total = partials[slot, 0]; for other in range(1, parts): total += partials[slot, other]
        store(c, g(total))
        arrivals[slot] = 0

Parts are added in their own order, whichever program does it: equal calls give equal results. The last program leaves
the arrivals as it found them, at zero, for the next launch.

Either every tile has as many parts, or those alone have some that are left over after whole waves of programs: `tail`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.backends.triton.tail import PART, PARTS, SLOT, Tail
from ninetoothed.dtypes import DType, PointerType, float32, int1, int32
from ninetoothed.expr import Expr, const, var

_SLOT_NAME, _OTHER = "tile_number", "other_part"
# Tiles of fewer elements are not worth it.
FEWEST_ELEMENTS = 256


@dataclass(frozen=True)
class Scratch:
    """Memory that a kernel needs beside its arguments: `count` elements; zeros at the start where `is_zeroed`."""

    name: str
    dtype: DType
    count: Expr
    is_zeroed: bool = False


@dataclass(frozen=True)
class Shared:
    """A program, the memory in which parts of its sum meet, and the tail of its tiles if they alone have parts."""

    program: ir.Program
    scratch: tuple[Scratch, ...] = ()
    tail: Tail | None = None


def split(program: ir.Program, parts: int, at_once: int = 0) -> Shared:
    """The program with its sum in parts, only of tiles beyond whole waves of `at_once` programs unless that is 0.

    As it is where there is no such sum.
    """
    loop = sum_of(program) if parts > 1 else None
    if loop is None:
        return Shared(program)
    if not at_once:
        return _Split(program, loop, _parts_of_all(program, parts)).done()
    tail = Tail(math.prod(program.grid, start=const(1)), at_once, parts)
    return replace(_Split(program, loop, _parts_of(tail)).done(), tail=tail)


def sum_of(program: ir.Program) -> ir.For | None:
    """The only loop of a program, if all that it carries is a sum from zero of tiles; what follows it may store."""
    loops = [operation for operation in program.body if ir.blocks(operation)]
    if len(loops) != 1 or not isinstance(loops[0], ir.For):
        return None
    (loop,) = loops
    position = program.body.index(loop)
    before, after = program.body[:position], program.body[position + 1 :]
    is_plain = all(map(_is_pure, (*before, *loop.body))) and all(
        isinstance(operation, ir.Store) or _is_pure(operation) for operation in after
    )
    loads = {operation.access.parameter for operation in ir.walk(program.body) if isinstance(operation, ir.Load)}
    stores = {operation.access.parameter for operation in after if isinstance(operation, ir.Store)}
    return loop if is_plain and not loads & stores and _is_sum(loop, before) else None


def _is_pure(operation: ir.Operation) -> bool:
    match operation:
        case ir.Apply(results=results, operands=operands):
            types = (value.type.dtype for value in (*results, *operands))
            return bool(results) and not any(isinstance(dtype, PointerType) for dtype in types)
        case ir.Constant() | ir.Argument() | ir.Index() | ir.Load():
            return True
    return False


def _is_sum(loop: ir.For, before: ir.Block) -> bool:
    if len(loop.initial) != 1 or loop.start != const(0) or loop.step != const(1) or loop.bindings:
        return False
    producers = {result: operation for operation in (*before, *loop.body) for result in ir.results(operation)}
    (start,), (carried,), (end,) = loop.initial, loop.arguments, loop.yields
    zeros, total = producers.get(start), producers.get(end)
    match zeros, total:
        case ir.Apply(function="full", operands=(number,)), ir.Apply(function="add", operands=operands):
            zero = producers.get(number)
            reads = sum(value is carried for operation in loop.body for value in ir.operands(operation))
            is_zero = isinstance(zero, ir.Constant) and zero.value == 0
            return is_zero and reads == 1 and carried in operands and _is_large(carried.type)
    return False


def _is_large(type: ir.TileType) -> bool:
    return type.dtype == float32 and math.prod(type.lanes) >= FEWEST_ELEMENTS


@dataclass(frozen=True)
class _Parts:
    """How many parts the tile of a program has, and where they meet: one of `slots`, for all of which `partials` do.

    axes: what the program's indices get before them, with numbers of which they are less.
    """

    axes: tuple[tuple[str, int], ...]
    count: Expr
    slot: Expr
    slots: Expr
    partials: Expr


def _parts_of_all(program: ir.Program, parts: int) -> _Parts:
    """The slot is the number of the tile."""
    slot, slots = const(0), const(1)
    for axis, extent in zip(program.axes, program.grid, strict=True):
        slot, slots = slot * extent + var(axis), slots * extent
    return _Parts(((PART, parts),), const(parts), slot, slots, slots * parts)


def _parts_of(tail: Tail) -> _Parts:
    axes = ((PART, tail.most), (PARTS, tail.most + 1), (SLOT, tail.at_once))
    return _Parts(axes, var(PARTS), var(SLOT), const(tail.at_once), const(tail.at_once))


class _Split:
    def __init__(self, program: ir.Program, loop: ir.For, parts: _Parts):
        self._program, self._loop, self._parts = program, loop, parts
        self._type = loop.results[0].type
        self._slot = ir.Value(ir.TileType(int32), _SLOT_NAME)
        taken = {parameter.name for parameter in program.parameters}
        self._partials, self._arrivals = (_unused(name, taken) for name in ("partials", "arrivals"))

    def done(self) -> Shared:
        program, loop, parts = self._program, self._loop, self._parts
        position = program.body.index(loop)
        start, stop = (loop.stop * part // parts.count for part in (var(PART), var(PART) + 1))
        after = self._after(program.body[position + 1 :])
        facts = program.facts
        for axis, bound in parts.axes:
            facts = facts.bind(axis, 0, bound - 1)
        parameters, scratch = self._scratch()
        shared = replace(
            program,
            parameters=(*program.parameters, *parameters),
            grid=(*(const(bound) for _, bound in parts.axes), *program.grid),
            axes=(*(axis for axis, _ in parts.axes), *program.axes),
            body=(*program.body[:position], replace(loop, start=start, stop=stop), *after),
            facts=facts,
        )
        return Shared(shared, scratch)

    def _scratch(self) -> tuple[tuple[ir.Parameter, ...], tuple[Scratch, ...]]:
        parts, lanes = self._parts, self._type.lanes
        sizes = (parts.partials, *map(const, lanes))
        strides = tuple(const(math.prod(lanes[axis:])) for axis in range(len(lanes) + 1))
        parameters = (
            ir.Parameter(self._partials, "tensor", float32, sizes, strides),
            ir.Parameter(self._arrivals, "tensor", int32, (parts.slots,), (const(1),)),
        )
        scratch = (
            Scratch(self._partials, float32, parts.partials * math.prod(lanes)),
            Scratch(self._arrivals, int32, parts.slots, is_zeroed=True),
        )
        return parameters, scratch

    def _after(self, block: ir.Block) -> ir.Block:
        """What follows the sum, done by the last program; at once where the tile is of one part."""
        meeting = self._meeting(block)
        if self._parts.count.is_constant:
            return meeting
        count, one, is_shared = ir.Value(ir.TileType(int32)), ir.Value(ir.TileType(int32)), ir.Value(ir.TileType(int1))
        return (
            ir.Index(count, self._parts.count),
            ir.Constant(one, 1),
            ir.Apply((is_shared,), "gt", (count, one)),
            ir.If(is_shared, meeting, (), block, (), ()),
        )

    def _meeting(self, after: ir.Block) -> ir.Block:
        """Leave the part, and have the last program do what follows the sum."""
        scalar = ir.TileType(int32)
        pointer = ir.TileType(PointerType(int32, self._arrivals))
        base, arrivals, arrived = ir.Value(pointer), ir.Value(pointer, "arrivals"), ir.Value(scalar, "arrived")
        one, zero, last, is_last = *(ir.Value(scalar) for _ in range(3)), ir.Value(ir.TileType(int1))
        total, sums = self._sum()
        rest = (*sums, *_copied(after, {self._loop.results[0]: total}))
        leave = (ir.Constant(zero, 0), ir.Apply((), "store_pointer", (arrivals, zero)))
        return (
            ir.Index(self._slot, self._parts.slot),
            ir.Store(self._access(var(PART)), self._loop.results[0]),
            ir.Apply((), "debug_barrier", ()),
            ir.Apply((base,), "data_ptr", (), (("parameter", self._arrivals),)),
            ir.Apply((arrivals,), "add", (base, self._slot)),
            ir.Constant(one, 1),
            ir.Apply((arrived,), "atomic_add", (arrivals, one)),
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
        lanes = tuple(ir.Lane(f"{PART}_{axis}", axis, count) for axis, count in enumerate(self._type.lanes))
        indices = (var(_SLOT_NAME) * self._parts.count + part, *(var(lane.name) for lane in lanes))
        return ir.Access(self._partials, self._type, indices, lanes=lanes, bindings=((_SLOT_NAME, self._slot),))


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _copied(block: ir.Block, new: dict[ir.Value, ir.Value]) -> ir.Block:
    """A straight-line block once more, with values of its own, that reads `new` values for others."""
    new = dict(new)

    def value(v: ir.Value) -> ir.Value:
        return new.get(v, v)

    def fresh(v: ir.Value) -> ir.Value:
        return new.setdefault(v, ir.Value(v.type, v.hint))

    def bound(bindings: ir.Bindings) -> ir.Bindings:
        return tuple((name, value(v)) for name, v in bindings)

    def operation(o: ir.Operation) -> ir.Operation:
        match o:
            case ir.Apply(operands=operands, results=results):
                return replace(o, operands=tuple(map(value, operands)), results=tuple(map(fresh, results)))
            case ir.Index(bindings=bindings, result=result):
                return replace(o, bindings=bound(bindings), result=fresh(result))
            case ir.Load(access=access, result=result):
                return replace(o, access=replace(access, bindings=bound(access.bindings)), result=fresh(result))
            case ir.Store(access=access, value=stored):
                return replace(o, access=replace(access, bindings=bound(access.bindings)), value=value(stored))
        return replace(o, result=fresh(o.result))

    return tuple(map(operation, block))

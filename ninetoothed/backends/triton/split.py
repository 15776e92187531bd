"""Pass: a long sum is shared out over several programs, the last of which to finish adds up what all have found.

    total = zeros; for k in range(n): total += f(k)
    store(c, g(total))
->  total = zeros; for k in range(n * part // 4, n * (part + 1) // 4): total += f(k)
    store(partials[tile, part], total)
    if atomic_add(arrivals[tile], 1) == 3:
        total = partials[tile, 0] + partials[tile, 1] + partials[tile, 2] + partials[tile, 3]
        store(c, g(total))
        arrivals[tile] = 0

Parts are added in their own order, whichever program does it: equal calls give equal results. The last program leaves
the arrivals as it found them, at zero, for the next launch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.dtypes import DType, PointerType, float32, int1, int32
from ninetoothed.expr import Expr, const, var

_PART, _NUMBER = "part", "tile_number"
# Tiles of fewer elements are not worth it.
FEWEST_ELEMENTS = 256


@dataclass(frozen=True)
class Scratch:
    """Memory that a kernel needs beside its arguments: `count` elements; zeros at the start where `is_zeroed`."""

    name: str
    dtype: DType
    count: Expr
    is_zeroed: bool = False


def split(program: ir.Program, parts: int) -> tuple[ir.Program, tuple[Scratch, ...]]:
    """The program with its sum in parts, and the memory in which they meet; as it is where there is no such sum."""
    loop = sum_of(program) if parts > 1 else None
    if loop is None:
        return program, ()
    return _Split(program, loop, parts).done()


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


class _Split:
    def __init__(self, program: ir.Program, loop: ir.For, parts: int):
        self._program, self._loop, self._parts = program, loop, parts
        self._type = loop.results[0].type
        self._number = ir.Value(ir.TileType(int32), _NUMBER)
        taken = {parameter.name for parameter in program.parameters}
        self._partials, self._arrivals = (_unused(name, taken) for name in ("partials", "arrivals"))
        self._tile, self._tiles = const(0), const(1)
        for axis, extent in zip(program.axes, program.grid, strict=True):
            self._tile, self._tiles = self._tile * extent + var(axis), self._tiles * extent

    def done(self) -> tuple[ir.Program, tuple[Scratch, ...]]:
        program, loop, parts = self._program, self._loop, self._parts
        position = program.body.index(loop)
        part = var(_PART)
        shared = replace(loop, start=loop.stop * part // parts, stop=loop.stop * (part + 1) // parts)
        body = (*program.body[:position], shared, *self._meeting(program.body[position + 1 :]))
        elements = math.prod(self._type.lanes)
        sizes = (self._tiles * parts, *map(const, self._type.lanes))
        strides = tuple(const(math.prod(self._type.lanes[axis:])) for axis in range(len(self._type.lanes) + 1))
        partials = ir.Parameter(self._partials, "tensor", float32, sizes, strides)
        arrivals = ir.Parameter(self._arrivals, "tensor", int32, (self._tiles,), (const(1),))
        scratch = (
            Scratch(self._partials, float32, self._tiles * parts * elements),
            Scratch(self._arrivals, int32, self._tiles, is_zeroed=True),
        )
        split = replace(
            program,
            parameters=(*program.parameters, partials, arrivals),
            grid=(const(parts), *program.grid),
            axes=(_PART, *program.axes),
            body=body,
            facts=program.facts.bind(_PART, 0, parts - 1),
        )
        return split, scratch

    def _meeting(self, after: ir.Block) -> ir.Block:
        """Leave the part, and have the last program do what follows the sum."""
        scalar = ir.TileType(int32)
        pointer = ir.TileType(PointerType(int32, self._arrivals))
        base, arrivals, arrived = ir.Value(pointer), ir.Value(pointer, "arrivals"), ir.Value(scalar, "arrived")
        one, zero, last, is_last = *(ir.Value(scalar) for _ in range(3)), ir.Value(ir.TileType(int1))
        total, sums = self._sum()
        rest = (*sums, *_renamed(after, self._loop.results[0], total))
        return (
            ir.Index(self._number, self._tile),
            ir.Store(self._access(var(_PART)), self._loop.results[0]),
            ir.Apply((), "debug_barrier", ()),
            ir.Apply((base,), "data_ptr", (), (("parameter", self._arrivals),)),
            ir.Apply((arrivals,), "add", (base, self._number)),
            ir.Constant(one, 1),
            ir.Apply((arrived,), "atomic_add", (arrivals, one)),
            ir.Constant(last, self._parts - 1),
            ir.Apply((is_last,), "eq", (arrived, last)),
            ir.If(
                is_last, (*rest, ir.Constant(zero, 0), ir.Apply((), "store_pointer", (arrivals, zero))), (), (), (), ()
            ),
        )

    def _sum(self) -> tuple[ir.Value, list[ir.Operation]]:
        operations: list[ir.Operation] = []
        total = None
        for part in range(self._parts):
            loaded = ir.Value(self._type, "partial")
            operations.append(ir.Load(loaded, self._access(const(part))))
            if total is not None:
                both = ir.Value(self._type, self._loop.results[0].hint)
                operations.append(ir.Apply((both,), "add", (total, loaded)))
                loaded = both
            total = loaded
        return total, operations

    def _access(self, part: Expr) -> ir.Access:
        lanes = tuple(ir.Lane(f"{_PART}_{axis}", axis, count) for axis, count in enumerate(self._type.lanes))
        indices = (var(_NUMBER) * self._parts + part, *(var(lane.name) for lane in lanes))
        return ir.Access(self._partials, self._type, indices, lanes=lanes, bindings=((_NUMBER, self._number),))


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _renamed(block: ir.Block, old: ir.Value, new: ir.Value) -> ir.Block:
    """A straight-line block that reads `new` for `old`."""

    def value(v: ir.Value) -> ir.Value:
        return new if v is old else v

    def bindings(access: ir.Access) -> ir.Access:
        return replace(access, bindings=tuple((name, value(v)) for name, v in access.bindings))

    def operation(o: ir.Operation) -> ir.Operation:
        match o:
            case ir.Apply(operands=operands):
                return replace(o, operands=tuple(map(value, operands)))
            case ir.Index(bindings=bound):
                return replace(o, bindings=tuple((name, value(v)) for name, v in bound))
            case ir.Load(access=access):
                return replace(o, access=bindings(access))
            case ir.Store(access=access, value=stored):
                return replace(o, access=bindings(access), value=value(stored))
        return o

    return tuple(map(operation, block))

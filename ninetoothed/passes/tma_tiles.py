"""Pass: find TMA tiles: loads and stores that go through tensor descriptors, so that one thread copies a whole tile.

    a = tl.load(a_ptr + k * 64 + a_offsets, mask=(rows[:, None] < m) & (...), other=0.0)
->  a = a_desc.load([pid_0 * 128, k * 64])

Each index of the source is an offset plus at most one lane. The copy engine fills lanes beyond the source with zeros
and writes nothing there, so the guards of the source's own bounds need no code. It asks for a unit inner stride, other
strides and an address of whole 16 bytes, and at most 256 elements a side. An offset may have numbers that were read
before all loops, such as where an entry of a jagged tensor begins. For the entry's end see `_within_an_entry`.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ninetoothed import ir
from ninetoothed.arrangement.guards import Guard, unimplied
from ninetoothed.dtypes import PointerType
from ninetoothed.expr import Expr, Facts, const, divisor, is_nonnegative, minimum
from ninetoothed.ir.lanes import with_lanes
from ninetoothed.passes.operations import are_apart
from ninetoothed.passes.products import products
from ninetoothed.passes.target import Target
from ninetoothed.schedule import Schedule

# What the copy engine takes.
ALIGNMENT = 16
MOST_DIMENSIONS = 5
MOST_ELEMENTS = 256
# Sizes of dimensions that nothing lies in but a place: see `_within_an_entry`.
FAR, MOST_FAR = 2**30, 2**31 - 2**16


@dataclass(frozen=True)
class TmaTile:
    """An access through a tensor descriptor.

    sizes, strides, block, offsets: one a dimension of the descriptor, the one of unit stride last. axes: the axis of
    the tile along each dimension, None where the tile is one element wide.
    """

    parameter: str
    sizes: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    block: tuple[int, ...]
    offsets: tuple[Expr, ...]
    axes: tuple[int | None, ...]

    def at(self, values: Mapping[str, Expr]) -> TmaTile:
        """Return the tile that begins where these values say."""
        return replace(self, offsets=tuple(offset.subs(values) for offset in self.offsets))


def usable(
    program: ir.Program, target: Target, schedule: Schedule, is_overlapped: bool = False
) -> Mapping[ir.Operation, TmaTile]:
    """Find accesses for which descriptors pay: operands of products, results, and what is added to these.

    Where products overlap with what lies between, so do other matrices that their loops load, such as masks.
    """
    multiplied = products(program) if target.has_tma else ()
    if not any(isinstance(loop, ir.For) for each in multiplied for loop in each.loops):
        return {}
    allowed = _safe(program) & schedule.use_tma
    once = tuple(_done_once(program.body))
    # Where products overlap, the warp that copies computes such numbers for itself.
    before = ir.walk(program.body) if is_overlapped else once
    known = {value for operation in before if not isinstance(operation, ir.Loop) for value in ir.results(operation)}
    found: dict[ir.Operation, TmaTile] = {}
    stored: set[tuple[int, ...]] = set()
    operands = {feed.load for each in multiplied for side in each.sides for feed in side if feed.is_in_memory}
    for operation in ir.walk(program.body):
        if isinstance(operation, ir.Load) and operation in operands and _is_of_halves(operation.result.type):
            _keep(found, program, operation, allowed, known)
    if not found:
        return {}
    for loop in (each for each in ir.walk(program.body) if is_overlapped and isinstance(each, ir.For | ir.If)):
        for operation in (load for block in ir.blocks(loop) for load in block if isinstance(load, ir.Load)):
            if operation not in found and _is_matrix(operation.access.type):
                _keep(found, program, operation, allowed, known, replace(operation.access, other=0))
    for operation in once:
        if isinstance(operation, ir.Store) and len(operation.access.type.lanes) > 1:
            _keep(found, program, operation, allowed, known)
            stored |= {operation.access.type.lanes} if operation in found else set()
    for operation in once:
        if isinstance(operation, ir.Load) and operation.access.type.lanes in stored:
            _keep(found, program, operation, allowed, known)
    return found


def _done_once(block: ir.Block) -> Iterator[ir.Operation]:
    """Yield the operations that no loop repeats."""
    for operation in block:
        yield operation
        if isinstance(operation, ir.If):
            yield from _done_once((*operation.then_body, *operation.else_body))


def _keep(
    found: dict[ir.Operation, TmaTile],
    program: ir.Program,
    operation: ir.Load | ir.Store,
    allowed: Collection[str],
    known: Collection[ir.Value],
    access: ir.Access | None = None,
) -> None:
    access = access or operation.access
    are_known = all(value in known and value.type.is_scalar for _, value in access.bindings)
    tile = tile_of(program, access) if are_known and access.parameter in allowed else None
    if tile is not None:
        found[operation] = tile


def _safe(program: ir.Program) -> frozenset[str]:
    """Find the parameters that are only loaded or, place by place, stored once.

    The copy engine and the threads do not wait for each other's accesses to the same memory.
    """
    loads, taken = set(), set()
    stores: dict[str, list[_Branched]] = {}
    for operation, branches in _with_branches(program.body):
        match operation:
            case ir.Load(access=access):
                loads.add(access.parameter)
            case ir.Store(access=access):
                stores.setdefault(access.parameter, []).append((access, branches))
            case ir.Apply(operands=operands):
                types = (value.type.dtype for value in operands)
                taken |= {dtype.parameter for dtype in types if isinstance(dtype, PointerType)}
    tensors = {parameter.name for parameter in program.parameters if parameter.role == "tensor"}
    return frozenset(
        name for name in tensors - taken if name not in stores or (name not in loads and _are_stored_once(stores[name]))
    )


# The side taken of each branch that an operation is in.
_Branches = Mapping[ir.If, bool]
_Branched = tuple[ir.Access, _Branches]


def _with_branches(
    block: ir.Block, branches: _Branches = MappingProxyType({})
) -> Iterator[tuple[ir.Operation, _Branches]]:
    for operation in block:
        yield operation, branches
        if isinstance(operation, ir.If):
            yield from _with_branches(operation.then_body, {**branches, operation: True})
            yield from _with_branches(operation.else_body, {**branches, operation: False})
        else:
            for nested in ir.blocks(operation):
                yield from _with_branches(nested, branches)


def _are_stored_once(stores: list[_Branched]) -> bool:
    """Tell whether of any two stores the places differ, or a program does but one of them."""
    return all(
        any(others.get(branch, side) != side for branch, side in branches.items()) or are_apart(first, second)
        for (first, branches), (second, others) in itertools.combinations(stores, 2)
    )


def _is_of_halves(type: ir.TileType) -> bool:
    """Tell whether a tile has numbers of 16 bits at most, and rows."""
    return type.dtype.is_floating and type.dtype.bits <= 16 and len(type.lanes) > 1


def _is_matrix(type: ir.TileType) -> bool:
    return sum(count > 1 for count in type.lanes) == 2


def tile_of(program: ir.Program, access: ir.Access) -> TmaTile | None:
    """Describe an access to the copy engine; None for one that it cannot make."""
    parameter = program.parameter(access.parameter)
    if access.other != 0 or parameter.wide:
        return None
    facts = with_lanes(program.facts, access.lanes)
    guards = [each for each in unimplied(access.guards, facts) if not _is_own(each, access, parameter, facts)]
    dimensions = []
    for index, size, stride in zip(access.indices, parameter.sizes, parameter.strides, strict=True):
        split = _split(access, index)
        if split is None or (stride == 0 and split[1] is not None):
            return None
        if stride != 0:
            dimensions.append((size, stride, *split))
    if guards and not _within_an_entry(access, parameter, guards, dimensions, facts):
        return None
    dimensions.sort(key=lambda dimension: dimension[1] == 1)  # that of unit stride last, the others as they are
    return _legal(access, dimensions, facts)


def _split(access: ir.Access, index: Expr) -> tuple[Expr, ir.Lane | None] | None:
    """Split an index into an offset and the one lane beside it; None where it is no such sum."""
    index = index.subs({lane.name: 0 for lane in access.lanes if lane.count == 1})
    lanes = [lane for lane in access.lanes if lane.name in index.variables]
    if not lanes:
        return index, None
    linear = index.linear(frozenset(lane.name for lane in lanes))
    if len(lanes) > 1 or linear is None or linear[0].get(lanes[0].name) != 1:
        return None
    return linear[1], lanes[0]


def _is_own(guard: Guard, access: ir.Access, parameter: ir.Parameter, facts: Facts) -> bool:
    """Tell whether a guard says no more than that an index is one of the source's own, along a stride that is not 0.

    Others are not the descriptor's: past the end of a source of one element, it would give that element again.
    """
    dimensions = zip(access.indices, parameter.sizes, parameter.strides, strict=True)
    own = (size for index, size, stride in dimensions if guard.index == index and stride != 0)
    return any(not guard.upper or is_nonnegative(guard.size - size, facts) for size in own)


def _within_an_entry(
    access: ir.Access, parameter: ir.Parameter, guards: Sequence[Guard], dimensions: list[tuple[Any, ...]], facts: Facts
) -> bool:
    """Give a tile dimensions of which one ends where an entry does; False where these guards say something else.

        x[start + row] where row < length,  x_stride the stride of rows
    ->  x_desc[FAR, start + length, FAR - length + row],  its strides (2^34 - x_stride, x_stride, x_stride)

    The last index is below its size, FAR = 2^30, where the row is before the entry's end. In the sum of all indices
    times their strides, FAR times 2^34 is a multiple of 2^64, which addresses wrap around at, and what remains is
    x_stride * (start + row): as in Triton's `tools/ragged_tma.py`. A tensor that is not `wide` has fewer rows than FAR.
    """
    if len(guards) != 1 or guards[0].lower:
        return False
    row, names, lanes = guards[0].index, {name for name, _ in access.bindings}, {lane.name for lane in access.lanes}
    if row.variables.isdisjoint(lanes) or not guards[0].size.variables <= names:
        return False
    for index, size, stride in zip(access.indices, parameter.sizes, parameter.strides, strict=True):
        start, whole, own = index - row, _split(access, index), _split(access, row)
        # An entry from the first row on is no longer than its source, whatever is read of its length.
        length = minimum(guards[0].size, size) if start == 0 else guards[0].size
        is_place = start.variables <= names and is_nonnegative(start, facts) and is_nonnegative(length, facts)
        is_short = start == 0 or all(facts.range_of(name).hi is not None for name in length.variables)
        if is_place and is_short and stride not in (0, 1) and whole is not None and own is not None:
            place = dimensions.index((size, stride, *whole))
            dimensions[place] = const(FAR), stride, FAR - length + own[0], own[1]
            dimensions.insert(0, (const(MOST_FAR), stride, start + length, None))
            if len(dimensions) == MOST_DIMENSIONS:
                unit = ALIGNMENT * 8 // access.type.dtype.bits
                if not all(_is_foldable(each, unit, facts) for each in dimensions):
                    return False
                dimensions[:] = _in_one(dimensions, unit)
            dimensions.insert(0, (const(MOST_FAR), 2**34 - stride, const(FAR), None))
            return True
    return False


def _is_foldable(dimension: tuple[Any, ...], unit: int, facts: Facts) -> bool:
    """Tell whether a dimension of no lane steps by whole units, and not past its end, which nothing else would see."""
    size, stride, offset, lane = dimension
    is_within = is_nonnegative(offset, facts) and is_nonnegative(size - 1 - offset, facts)
    return lane is not None or (divisor(stride, facts) % unit == 0 and (size == const(MOST_FAR) or is_within))


def _in_one(dimensions: list[tuple[Any, ...]], unit: int) -> list[tuple[Any, ...]]:
    """Take those of no lane as one, of as many elements as all strides have a multiple of."""
    places = [offset * (stride // unit) for _, stride, offset, lane in dimensions if lane is None]
    return [(const(MOST_FAR), const(unit), sum(places, const(0)), None), *(each for each in dimensions if each[3])]


def _legal(access: ir.Access, dimensions: Sequence[tuple[Any, ...]], facts: Facts) -> TmaTile | None:
    """Describe a tile along these dimensions, if the copy engine takes it and it has each axis of the tile once."""
    if not 2 <= len(dimensions) <= MOST_DIMENSIONS:
        return None
    sizes, strides, offsets, lanes = zip(*dimensions, strict=True)
    item = max(access.type.dtype.bits, 8) // 8
    block = tuple(lane.count if lane else 1 for lane in lanes)
    axes = tuple(lane.axis if lane else None for lane in lanes)
    wanted = [axis for axis, count in enumerate(access.type.lanes) if count > 1]
    if sorted(axis for axis in axes if axis is not None) != wanted or strides[-1] != 1:
        return None
    if any(divisor(stride, facts) * item % ALIGNMENT for stride in strides[:-1]):
        return None
    if max(block) > MOST_ELEMENTS or block[-1] * item < ALIGNMENT:
        return None
    return TmaTile(access.parameter, sizes, strides, block, offsets, axes)

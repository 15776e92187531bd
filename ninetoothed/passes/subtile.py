"""Pieces of tiles: what it takes to compute some rows or columns of a value by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ninetoothed import ir
from ninetoothed.expr import Expr, const, var
from ninetoothed.passes.operations import is_lanewise


@dataclass(frozen=True)
class Cut:
    """Of an axis `count` lanes, those from `offset` on."""

    axis: int
    count: int
    offset: Expr


Cuts = tuple[Cut, ...]


class Whole(Exception):
    """Something cannot be computed in pieces."""


def producers_of(block: ir.Block) -> dict[ir.Value, ir.Operation]:
    return {result: operation for operation in block for result in ir.results(operation)}


@dataclass
class Pieces:
    """Pieces of what a block computes.

    producers: what makes the values of the block. outside: the pieces of other values. operations: those that make the
    pieces, in an order in which they can be done; all of their results are new. known: the pieces so far.
    """

    producers: Mapping[ir.Value, ir.Operation]
    outside: Callable[[ir.Value, Cuts], ir.Value]
    operations: list[ir.Operation] = field(default_factory=list)
    known: dict[tuple[ir.Value, Cuts], ir.Value] = field(default_factory=dict)

    def of(self, value: ir.Value, cuts: Cuts) -> ir.Value:
        """A piece of a value; along an axis of one lane, for which the value is repeated, there is nothing to cut."""
        cuts = tuple(cut for cut in cuts if value.type.lanes and value.type.lanes[cut.axis] != 1)
        if (value, cuts) not in self.known:
            producer = self.producers.get(value)
            piece = self.outside(value, cuts) if producer is None else self._redone(producer, value, cuts)
            self.known[value, cuts] = piece
        return self.known[value, cuts]

    def stored(self, store: ir.Store, cuts: Cuts) -> ir.Store:
        """The store of a piece."""
        return replace(store, access=_access(store.access, cuts), value=self.of(store.value, cuts))

    def _redone(self, operation: ir.Operation, value: ir.Value, cuts: Cuts) -> ir.Value:
        result = ir.Value(cut_type(value.type, cuts), value.hint)
        match operation:
            case ir.Load(access=access):
                new = replace(operation, result=result, access=_access(access, cuts))
            case ir.Apply(operands=operands, results=(_,)):
                pieces = tuple(map(self.of, operands, _of_operands(operation, value, cuts)))
                new = replace(operation, results=(result,), operands=pieces)
            case ir.Index(expr=e, lanes=lanes, bindings=()):
                lanes, moved = _cut_lanes(lanes, cuts)
                new = replace(operation, result=result, expr=e.subs(moved), lanes=lanes)
            case ir.Constant() | ir.ScalarArgument():
                new = replace(operation, result=result)
            case _:
                raise Whole
        self.operations.append(new)
        return result


def is_cut_alike(block: ir.Block, value: ir.Value, start: ir.Value, axis: int) -> bool:
    """Whether, of two values of the same lanes, any piece of the first along an axis needs just that of the second."""

    def outside(other: ir.Value, cuts: Cuts) -> ir.Value:
        if other is start and cuts != piece:
            raise Whole
        return other

    piece = (Cut(axis, start.type.lanes[axis] // 2, const(0)),)
    try:
        Pieces(producers_of(block), outside).of(value, piece)
    except Whole:
        return False
    return value.type.lanes == start.type.lanes


def cut_type(type: ir.TileType, cuts: Cuts) -> ir.TileType:
    """The type of a piece."""
    shape, lanes = list(type.shape), list(type.lanes)
    for cut in cuts:
        shape[cut.axis], lanes[cut.axis] = const(cut.count), cut.count
    return replace(type, shape=tuple(shape), lanes=tuple(lanes))


def _access(access: ir.Access, cuts: Cuts) -> ir.Access:
    if access.bindings:
        raise Whole
    lanes, moved = _cut_lanes(access.lanes, cuts)
    return replace(
        access,
        type=cut_type(access.type, cuts),
        indices=tuple(index.subs(moved) for index in access.indices),
        guards=tuple(replace(g, index=g.index.subs(moved), size=g.size.subs(moved)) for g in access.guards),
        lanes=lanes,
    )


def _cut_lanes(lanes: tuple[ir.Lane, ...], cuts: Cuts) -> tuple[tuple[ir.Lane, ...], dict[str, Expr]]:
    """The lanes of a piece, and what stands there for those of the whole."""
    new, moved = [], {}
    for lane in lanes:
        for cut in cuts:
            if cut.axis == lane.axis:
                piece = ir.Lane(f"{lane.name}_piece", lane.axis, cut.count)
                moved[lane.name] = var(piece.name) + cut.offset
                lane = piece
        new.append(lane)
    return tuple(new), moved


def _of_operands(operation: ir.Apply, value: ir.Value, cuts: Cuts) -> list[Cuts]:
    """The cuts of each operand that give a result its own."""
    operands, rank = operation.operands, len(value.type.lanes)
    if not cuts or is_lanewise(operation):
        if any(operand.type.lanes and len(operand.type.lanes) != rank for operand in operands if cuts):
            raise Whole
        return [cuts] * len(operands)
    match operation.function, operands:
        case "expand_dims", (_,):
            new = operation.attribute("axis") % rank
            return [tuple(replace(cut, axis=cut.axis - (cut.axis > new)) for cut in cuts)]
        case "permute", (_,):
            order = operation.attribute("dims")
            return [tuple(replace(cut, axis=order[cut.axis] % rank) for cut in cuts)]
        case "dot", (_, _) if rank == 2:
            return [tuple(cut for cut in cuts if cut.axis == axis) for axis in (0, 1)]
    raise Whole

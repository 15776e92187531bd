"""Build subtiles: compute some rows or columns of a value without the rest of the tile.

c = cast(a * b)                 ->  a_0 = a[:64]; b_0 = b[:64]; c_0 = cast(a_0 * b_0)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ninetoothed import ir
from ninetoothed.expr import Expr, const, var
from ninetoothed.ir.rewriter import access_at
from ninetoothed.language.primitive import Effect
from ninetoothed.passes.operations import producers


@dataclass(frozen=True)
class AxisSlice:
    """The `count` lanes of an axis that begin at `offset`."""

    axis: int
    count: int
    offset: Expr


Subtile = tuple[AxisSlice, ...]


class Inseparable(Exception):
    """A value cannot be computed in subtiles."""


def never(value: ir.Value, piece: Subtile) -> ir.Value:
    """Refuse to cut a value."""
    raise Inseparable


@dataclass
class SubtileBuilder:
    """Builds subtiles of the values of a block; of what loops carry all at once, along its first axis at least.

    producers: the operations that define the block's values. outside: gives subtiles of other values. operations: those
    that compute the subtiles, in an order in which they can run; all of their results are new. known: the subtiles that
    there are.
    """

    producers: Mapping[ir.Value, ir.Operation]
    outside: Callable[[ir.Value, Subtile], ir.Value] = never
    operations: list[ir.Operation] = field(default_factory=list)
    known: dict[tuple[ir.Value, Subtile], ir.Value] = field(default_factory=dict)

    def part(self, value: ir.Value, piece: Subtile) -> ir.Value:
        """Return a subtile of a value."""
        piece = _of_type(value.type, piece)
        if (value, piece) not in self.known:
            producer = self.producers.get(value)
            found = self.outside(value, piece) if producer is None else self.computed(producer, value, piece)
            self.known[value, piece] = found
        return self.known[value, piece]

    def stored(self, store: ir.Store, piece: Subtile) -> ir.Store:
        """Store a subtile."""
        return replace(store, access=self._access(store.access, piece), value=self.part(store.value, piece))

    def computed(self, operation: ir.Operation, value: ir.Value, piece: Subtile) -> ir.Value:
        """Clone an operation for a subtile of its result."""
        if isinstance(operation, ir.For):
            return self._carried(operation, value, piece)
        result = _like(value, piece)
        match operation:
            case ir.Load(access=access):
                operation = replace(operation, access=self._access(access, piece))
            case ir.Apply(operands=operands, results=(_,)):
                pieces = tuple(map(self.part, operands, _of_operands(operation, piece)))
                operation = replace(operation, operands=pieces)
            case ir.Index(expr=e, lanes=lanes, bindings=bindings):
                lanes, moved = _cut_lanes(lanes, piece)
                operation = replace(operation, expr=e.subs(moved), lanes=lanes, bindings=self._bound(bindings))
            case ir.Constant() | ir.ScalarArgument():
                pass
            case _:
                raise Inseparable
        self.operations.append(ir.Rewriter(values={value: result}).rebuilt(operation))
        return result

    def _carried(self, loop: ir.For, value: ir.Value, piece: Subtile) -> ir.Value:
        """Compute a subtile of a loop's result by a loop over subtiles of all that it carries."""
        is_cut = any(result in loop.results for result, _ in self.known)  # otherwise: it is not done twice
        if is_cut or loop.merge is not None or not piece or piece[0].axis != 0:
            raise Inseparable
        pieces = [_of_type(each.argument.type, piece) for each in loop.carried]
        pairs = list(zip(loop.carried, pieces, strict=True))
        known = {(each.argument, part): _like(each.argument, part) for each, part in pairs}
        within = SubtileBuilder(producers(loop.body), self.part, known=dict(known))
        yields = [within.part(each.yielded, part) for each, part in pairs]
        initial = [self.part(each.initial, part) for each, part in pairs]
        results = {(each.result, part): _like(each.result, part) for each, part in pairs}
        carried = ir.Carried.of(initial, known.values(), yields, results.values())
        body, bindings = tuple(within.operations), self._bound(loop.bindings)
        self.operations.append(replace(loop, carried=carried, body=body, bindings=bindings))
        self.known |= results
        return self.known[value, piece]

    def _access(self, access: ir.Access, piece: Subtile) -> ir.Access:
        lanes, moved = _cut_lanes(access.lanes, piece)
        cut = replace(access_at(access, lambda e: e.subs(moved)), lanes=lanes, bindings=self._bound(access.bindings))
        return replace(cut, type=subtile_type(access.type, piece))

    def _bound(self, bindings: ir.Bindings) -> ir.Bindings:
        """Return numbers that stand in expressions; a tile of them would have to be cut, too."""
        if any(value.type.lanes for _, value in bindings):
            raise Inseparable
        return tuple((name, self.part(value, ())) for name, value in bindings)


def needs_same_slice(block: ir.Block, value: ir.Value, start: ir.Value, axis: int) -> bool:
    """Tell whether a slice of one value along an axis needs only the same lanes of another."""

    def outside(other: ir.Value, piece: Subtile) -> ir.Value:
        if other is start and piece != half:
            raise Inseparable
        return other

    half = (AxisSlice(axis, start.type.lanes[axis] // 2, const(0)),)
    try:
        SubtileBuilder(producers(block), outside).part(value, half)
    except Inseparable:
        return False
    return value.type.lanes == start.type.lanes


def _like(value: ir.Value, piece: Subtile) -> ir.Value:
    """Return a new value for a subtile of another."""
    return ir.Value(subtile_type(value.type, piece), value.hint)


def _of_type(type: ir.TileType, piece: Subtile) -> Subtile:
    """Return the part of a subtile along axes of more than one lane: one lane is repeated and need not be cut."""
    return tuple(part for part in piece if type.lanes and type.lanes[part.axis] != 1)


def subtile_type(type: ir.TileType, piece: Subtile) -> ir.TileType:
    """Return the type of a part of a tile."""
    shape, lanes = list(type.shape), list(type.lanes)
    for part in piece:
        shape[part.axis], lanes[part.axis] = const(part.count), part.count
    return replace(type, shape=tuple(shape), lanes=tuple(lanes))


def _cut_lanes(lanes: tuple[ir.Lane, ...], piece: Subtile) -> tuple[tuple[ir.Lane, ...], dict[str, Expr]]:
    """Return the lanes of a subtile, and the expressions that stand there for those of the tile."""
    new, moved = [], {}
    for lane in lanes:
        for part in piece:
            if part.axis == lane.axis:
                own = ir.Lane(f"{lane.name}_piece", lane.axis, part.count)
                moved[lane.name] = var(own.name) + part.offset
                lane = own
        new.append(lane)
    return tuple(new), moved


def _of_operands(operation: ir.Apply, piece: Subtile) -> list[Subtile]:
    """Return the subtile of each operand that gives a subtile of the result."""
    axes, places = operation.axes, {part.axis: part for part in piece}
    if piece and (operation.primitive.effect is not Effect.NONE or not axes.free().issuperset(places)):
        raise Inseparable
    kept = (axes.kept(position) for position in range(len(operation.operands)))
    return [tuple(replace(places[other], axis=axis) for axis, other in own.items() if other in places) for own in kept]

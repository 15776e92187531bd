"""Operations that leave lanes where they are, element by element, or move them as a whole."""

from __future__ import annotations

from dataclasses import replace

from ninetoothed import dtypes, ir
from ninetoothed.dtypes import int1
from ninetoothed.expr import Expr, const, is_nonnegative, simplify
from ninetoothed.ir import TileType, Value
from ninetoothed.language import ELEMENTWISE
from ninetoothed.passes.overhang import contents, edges as edges_
from ninetoothed.passes.overhang.edges import Bound, Edge, Mask, with_lanes
from ninetoothed.passes.overhang.tiles import Tile, clashes, distinct, ends_later


def elementwise(work, operation: ir.Apply) -> None:
    """A lane is overhang where a lane of some operand is."""
    tiles = [work.tile(raw) for raw in operation.operands]
    work.emit(operation, tuple(tile.value for tile in tiles))
    for result in operation.results:
        work.set(result, _joined(work, operation, tiles, result))


def _joined(work, operation: ir.Apply, tiles: list[Tile], result: Value) -> Tile:
    tile = Tile(result, distinct(edge for each in tiles for edge in each.edges), clashes=clashes(tiles))
    number = contents.computed(operation, [each.number for each in tiles])
    known = {}
    for edge in tile.ends(work.facts):
        held = [_held(work, operation, tiles, position, edge) for position in range(len(tiles))]
        if operation.function == "where" and is_implied(work, operation.operands[0], edge):
            held[0] = False  # past the edge
        found = contents.computed(operation, held)
        if found is None:
            found = _falls(work, operation, held)
        if found is not None:
            known[edge] = found
    return replace(tile, contents=known, number=number)


def _held(work, operation: ir.Apply, tiles: list[Tile], position: int, edge: Edge) -> contents.Number | None:
    tile = tiles[position]
    is_own = edge in tile.edges or (isinstance(edge, Bound) and edge.parameter is None)
    return tile.held(edge) if is_own else tile.number


def _falls(work, operation: ir.Apply, held: list) -> contents.Number | None:
    """`-inf - x` is -inf unless x is; so it is in a softmax, where x is the peak of all that count."""
    if operation.function == "sub" and held[0] == -float("inf") and held[1] is None:
        if _is_above(work, operation.operands[1], operation.operands[0]):
            return held[0]
    return None


_MOVING = ("full", "broadcast", "expand_dims", "reshape", "permute")
_KEEPING = (*_MOVING, "cast", "assign")


def _peeled(work, raw: Value) -> ir.Operation | None:
    """The operation behind moves and casts."""
    operation = work.producers.get(raw)
    while isinstance(operation, ir.Apply) and operation.function in _KEEPING:
        operation = work.producers.get(operation.operands[-1 if operation.function == "assign" else 0])
    return operation


def _is_above(work, raw: Value, other: Value) -> bool:
    """Whether a value is never -inf, or only where all that counts of `other` is: then its results are NaN anyway."""
    match _peeled(work, raw):
        case ir.Constant(value=number):
            return number != -float("inf")
        case ir.Apply(function="max", operands=(inner,)):
            return _root(work, inner) is _root(work, other)
        case ir.Apply(function="maximum", operands=sides):
            return any(_is_above(work, side, other) for side in sides)
        case ir.Apply(function="where", operands=(condition, then, otherwise)):
            test, number = _peeled(work, condition), _peeled(work, then)
            if isinstance(test, ir.Apply) and test.function == "eq" and isinstance(number, ir.Constant):
                infinite = _peeled(work, test.operands[1])
                is_tested = _peeled(work, test.operands[0]) is _peeled(work, otherwise)
                is_infinite = isinstance(infinite, ir.Constant) and infinite.value == -float("inf")
                return is_tested and is_infinite and number.value != -float("inf")
    return False


def _root(work, raw: Value) -> ir.Operation | Value:
    return _peeled(work, raw) or raw


# -- choices ---------------------------------------------------------------------------------------


def where(work, operation: ir.Apply) -> None:
    """A lane is overhang where the condition is, or the side chosen."""
    condition, then, otherwise = (work.tile(raw) for raw in operation.operands)
    left = [edge for edge in then.edges if not is_implied(work, operation.operands[0], edge)]
    left, right = ([e for e in own if e not in condition.edges] for own in (left, otherwise.edges))
    result = operation.result
    if set(left) == set(right) or not any(edge.fails for edge in (*left, *right)):
        narrowed = [condition, replace(then, edges=tuple(left)), replace(otherwise, edges=tuple(right))]
        work.emit(operation, tuple(tile.value for tile in (condition, then, otherwise)))
        return work.set(result, _joined(work, operation, narrowed, result))
    work.emit(operation, (condition.value, then.value, otherwise.value))
    emission, type = work.emission, result.type
    sides = [emission.mask(own, type) for own in (left, right)]
    yes, no = (emission.number(True, _mask_type(type)) if side is None else side for side in sides)
    told = emission.choice(condition.value, emission.stretched(yes, type), emission.stretched(no, type))
    simple = [(own, side.number) for own, side in ((left, otherwise), (right, then)) if own and side.number is not None]
    own, number = simple[0] if len(simple) == 1 and all(isinstance(e, Bound) for e in simple[0][0]) else ((), None)
    mask = Mask(told, tuple(own), number, frozenset((*left, *right)))
    held = {tile.held(edge) for tile, own in ((then, left), (otherwise, right)) for edge in own if edge.fails}
    tile = _joined(work, operation, [condition, replace(then, edges=()), replace(otherwise, edges=())], result)
    known = {mask: next(iter(held))} if len(held) == 1 and None not in held else {}
    fixed = tuple(pair for each in (then, otherwise) for pair in each.clashes)
    work.set(
        result,
        replace(tile, edges=(*tile.edges, mask), contents={**tile.contents, **known}, clashes=(*tile.clashes, *fixed)),
    )


def _mask_type(type: TileType) -> TileType:
    return TileType(int1, type.shape, type.lanes)


def is_implied(work, condition: Value, edge: Edge) -> bool:
    """Whether lanes where a condition holds are not past an edge: the program has its own mask."""
    if not isinstance(edge, Bound) or edge.reached:
        return False
    facts = work.facts
    for e in _conjuncts(work, condition):
        if simplify(e - edge.room, facts) == 0:
            return True
        facts = facts.assume(e, 1)
    return facts is not work.facts and is_nonnegative(edge.room - 1, facts)


def _conjuncts(work, condition: Value):
    """Expressions that are above 0 where a condition holds."""
    operation = work.producers.get(condition)
    if not isinstance(operation, ir.Apply):
        return
    if operation.function == "and":
        for side in operation.operands:
            yield from _conjuncts(work, side)
    elif operation.function in ("lt", "le", "gt", "ge"):
        a, b = (expression(work, raw) for raw in operation.operands)
        if a is not None and b is not None:
            low, high = (a, b) if operation.function in ("lt", "le") else (b, a)
            yield high - low + (operation.function in ("le", "ge"))
    elif operation.function == "eq":
        a, b = (expression(work, raw) for raw in operation.operands)
        if a is not None and b is not None:
            yield a - b + 1
            yield b - a + 1
    elif operation.function in _MOVING:
        axes = edges_.forwards(operation)
        source = operation.operands[0].type
        names = {ir.Lane.of(axis, count).name: axis for axis, count in enumerate(source.lanes)}
        for e in _conjuncts(work, operation.operands[0]):
            own = {name: names[name] for name in e.variables if name in names}
            if all(axis in axes for axis in own.values()):
                yield e.subs({name: axes[axis] for name, axis in own.items()})


def expression(work, raw: Value) -> Expr | None:
    """An integer as an expression in the lanes of its axes."""
    match work.producers.get(raw):
        case ir.Constant(value=number) if isinstance(number, int):
            return const(int(number))
        case ir.Index(expr=e):
            return e
        case ir.Apply(function="cast", operands=(inner,), results=(result,)) if result.type.dtype in (
            dtypes.int32,
            dtypes.int64,
        ):
            return expression(work, inner)
        case ir.Apply(function=function) as operation if function in _MOVING:
            e, axes = expression(work, operation.operands[0]), edges_.forwards(operation)
            if e is None:
                return None
            source = operation.operands[0].type
            names = {ir.Lane.of(axis, count).name: axis for axis, count in enumerate(source.lanes)}
            own = {name: names[name] for name in e.variables if name in names}
            if all(axis in axes for axis in own.values()):
                return e.subs({name: axes[axis] for name, axis in own.items()})
    return None


# -- assignments -----------------------------------------------------------------------------------


def assign(work, operation: ir.Apply) -> None:
    """The new value of a variable; where another operand is overhang, the part computed from the old one stays."""
    old, new = operation.operands
    tile = _Update(work, old, work.rooms.get(operation.result)).of(new)
    work.set(operation.result, tile)


class _Update:
    """The value of a variable computed once more, of what `old` it held."""

    def __init__(self, work, old: Value, rooms):
        self.work, self.old, self.rooms = work, old, rooms or frozenset()
        self.known: dict[Value, Tile] = {old: work.tile(old)}
        self.dependent: dict[Value, bool] = {old: True}

    def depends(self, raw: Value) -> bool:
        """Whether a value is computed from the old one."""
        if raw not in self.dependent:
            self.dependent[raw] = False
            operation = self.work.producers.get(raw)
            if isinstance(operation, ir.Apply):
                self.dependent[raw] = any(map(self.depends, operation.operands))
        return self.dependent[raw]

    def of(self, raw: Value) -> Tile:
        if raw not in self.known:
            self.known[raw] = self.computed(raw)
        return self.known[raw]

    def computed(self, raw: Value) -> Tile:
        operation = self.work.producers.get(raw)
        if not self.depends(raw) or not isinstance(operation, ir.Apply) or len(operation.results) != 1:
            return self.work.tile(raw)
        if operation.function in ELEMENTWISE:
            return self.joined(operation)
        if operation.function == "dot" and len(operation.operands) == 3 and self.depends(operation.operands[2]):
            return self.joined(operation)
        if operation.function in SHAPES and len(operation.operands) == 1:
            inner = self.of(operation.operands[0])
            if inner.value is self.work.value(operation.operands[0]):
                value = self.work.value(raw)
            else:
                value = self.again(operation, (inner.value,))
            found = [self.work.moved(edge, operation) for edge in inner.edges]
            return Tile(value, tuple(edge for edge in found if edge is not None))
        return self.work.tile(raw)

    def again(self, operation: ir.Apply, operands: tuple[Value, ...]) -> Value:
        value = Value(operation.result.type, operation.result.hint)
        self.work.emission.emit(replace(operation, operands=operands, results=(value,)))
        return value

    def joined(self, operation: ir.Apply) -> Tile:
        """An operation of which an operand is a part of the old value."""
        work, raw = self.work, operation.result
        tiles = [self.of(operand) for operand in operation.operands]
        same = [tile.value is work.value(operand) for tile, operand in zip(tiles, operation.operands, strict=True)]
        position = self.base(operation, tiles)
        if all(same):
            value, normal = work.value(raw), work.tile(raw)
        else:
            value = self.again(operation, tuple(tile.value for tile in tiles))
            normal = _joined(work, operation, tiles, value)
        if position is None:
            return replace(normal, value=value)
        base = tiles[position]
        others = [tile for place, tile in enumerate(tiles) if place != position]
        lost = self.lost(operation, tiles, position, normal)
        if lost:
            work.settle((pair for each in others for pair in each.clashes), None, operation.location)
        if lost and not self.is_neutral(operation, tiles, position, lost) and not work.defers(base.value, lost):
            mask = work.emission.mask(lost, value.type)
            value = work.emission.choice(mask, value, base.value)
        found = [(a, b) for a, b in clashes([base, *others]) if not (a in base.edges and ends_later(a, b))]
        known = {edge: normal.held(edge) for edge in base.ends(work.facts) if normal.held(edge) is not None}
        return Tile(value, base.edges, known, clashes=tuple(found))

    def base(self, operation: ir.Apply, tiles: list[Tile]) -> int | None:
        """The operand that stays where another is overhang: a part of the old value, of the result's type."""
        parts = [
            place
            for place, operand in enumerate(operation.operands)
            if self.depends(operand) and operand.type.dtype == operation.result.type.dtype
            and operand.type.lanes == operation.result.type.lanes
        ]  # fmt: skip
        return min(parts, key=lambda place: len(tiles[place].edges), default=None)

    def lost(self, operation: ir.Apply, tiles: list[Tile], position: int, normal: Tile) -> list[Edge]:
        """The edges of other operands that some use of the variable can tell."""
        own = tiles[position].edges
        if operation.function == "dot":
            met = normal.edges
        else:
            met = distinct(edge for place, tile in enumerate(tiles) if place != position for edge in tile.edges)
        hidden = self.rooms if operation.result.type.lanes == self.old.type.lanes else frozenset()
        return [
            edge for edge in met
            if edge.fails and edge not in own and not (isinstance(edge, Bound) and edge.room in hidden)
        ]  # fmt: skip

    def is_neutral(self, operation: ir.Apply, tiles: list[Tile], position: int, lost: list[Edge]) -> bool:
        """Whether what the other operand holds past the edges leaves the part as it is."""
        if len(tiles) != 2:
            return False
        other = 1 - position
        number = contents.neutral(operation, other)
        return tiles[other].holds(number, lost)


# -- shapes ----------------------------------------------------------------------------------------


def _moving(work, operation: ir.Apply) -> None:
    tile = work.tile(operation.operands[0])
    work.emit(operation, (tile.value,))
    found = {edge: work.moved(edge, operation) for edge in tile.edges}
    ends = {edge: found.get(edge) or work.moved(edge, operation) for edge in tile.ends(work.facts)}
    known = {new: tile.held(edge) for edge, new in ends.items() if new is not None and tile.held(edge) is not None}
    pairs = tuple((found[a], found[b]) for a, b in tile.clashes if found.get(a) and found.get(b))
    result = operation.result
    work.set(result, Tile(result, tuple(filter(None, found.values())), known, tile.number, pairs))


def _full_mask(work, raw: Value) -> Value:
    """The lanes of a value that are elements, all of them told."""
    type = raw.type
    mask = work.emission.mask(work.tile(raw).edges, type)
    return work.emission.number(True, _mask_type(type)) if mask is None else work.emission.stretched(mask, type)


def _two(work, operation: ir.Apply) -> None:
    """`join` and `cat`."""
    tiles = [work.tile(raw) for raw in operation.operands]
    work.emit(operation, tuple(tile.value for tile in tiles))
    result, own = operation.result, ()
    if operation.function == "join" and set(tiles[0].edges) == set(tiles[1].edges):
        own = tiles[0].edges
        own = tuple(_same(work, edge, result.type) for edge in own)
    elif any(edge.fails for tile in tiles for edge in tile.edges):
        masks = tuple(_full_mask(work, raw) for raw in operation.operands)
        own = (Mask(work.emission.apply(operation.function, masks, _mask_type(result.type))),)
    work.set(result, Tile(result, own))


def _same(work, edge: Edge, type: TileType) -> Edge:
    """An edge of a tile in one that has one axis more, the last."""
    if isinstance(edge, Bound):
        return edge
    lanes = (*edge.value.type.lanes, 1)
    shape = (*edge.value.type.shape, const(1))
    return Mask(work.emission.apply("expand_dims", (edge.value,), TileType(int1, shape, lanes), axis=len(lanes) - 1))


def _split(work, operation: ir.Apply) -> None:
    tile = work.tile(operation.operands[0])
    work.emit(operation, (tile.value,))
    source = operation.operands[0].type
    last = len(source.lanes) - 1
    for half, result in enumerate(operation.results):
        axes = {axis: edges_.lane(result.type, axis) for axis in range(last)} | {last: const(half)}
        facts = with_lanes(work.facts, result.type)
        bounds = [edge for edge in tile.ends(work.facts) if isinstance(edge, Bound)]
        found = {edge: edges_.moved(edge, axes, result.type, facts) for edge in bounds}
        known = {new: tile.held(edge) for edge, new in found.items() if tile.held(edge) is not None}
        work.set(result, Tile(result, tuple(new for edge, new in found.items() if edge in tile.edges), known))
    masks = tuple(edge for edge in tile.edges if isinstance(edge, Mask))
    if masks:
        mask = work.emission.stretched(work.emission.mask(masks, source), source)
        types = [_mask_type(result.type) for result in operation.results]
        halves = tuple(Value(type) for type in types)
        work.emission.emit(ir.Apply(halves, "split", (mask,), location=operation.location))
        for half, result in zip(halves, operation.results, strict=True):
            known = work.tile(result)
            work.set(result, replace(known, edges=(*known.edges, Mask(half))))


def _gather(work, operation: ir.Apply) -> None:
    """What the program reaches for counts: past an edge it reads 0."""
    raw, index = operation.operands
    source = work.tile(raw)
    ends = [edge for edge in source.edges if edge.fails]
    source = work.filled(raw, source, 0, ends)
    work.emit(operation, (source.value, work.value(index)))
    work.set(operation.result, Tile(operation.result, work.tile(index).edges))


SHAPES = {
    **dict.fromkeys("full broadcast expand_dims reshape permute flip".split(), _moving),
    **dict.fromkeys(("join", "cat"), _two),
    "split": _split,
    "gather": _gather,
}

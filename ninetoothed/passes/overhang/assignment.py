"""Assignments whose value depends on what the variable held: there, overhang of other operands adds nothing.

    total = total * exp(peak - new) + exp(x - new)
->  total = where(lane < n, total * exp(peak - new) + exp(x - new), total * exp(peak - new))

Lanes that are overhang of the old value itself stay that: `x = x - sum(x) / n` has as many elements as before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ninetoothed import ir
from ninetoothed.expr import Expr
from ninetoothed.ir import Value
from ninetoothed.passes.overhang import contents
from ninetoothed.passes.overhang.edges import BoundEdge, OverhangEdge
from ninetoothed.passes.overhang.lanewise import joined
from ninetoothed.passes.overhang.tiles import TrackedTile, clashes, distinct, ends_later

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter


def assign(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Return the new value of a variable; where another operand is overhang, the part made of the old value stays."""
    old, new = operation.operands
    tile = _VariableUpdate(rewriter, old, rewriter.rooms.get(operation.result)).of(new)
    rewriter.set(operation.result, tile)


class _VariableUpdate:
    """Computes the new value of a variable again, from the `old` one."""

    def __init__(self, rewriter: OverhangRewriter, old: Value, rooms: frozenset[Expr] | None):
        self.rewriter, self.old, self.rooms = rewriter, old, rooms or frozenset()
        self.known: dict[Value, TrackedTile] = {old: rewriter.tile(old)}
        self.dependent: dict[Value, bool] = {old: True}
        self.inherited: dict[Value, frozenset[OverhangEdge]] = {old: frozenset(self.known[old].edges)}

    def depends(self, raw: Value) -> bool:
        """Tell whether a value is computed from the old one."""
        pending = [raw]
        while pending:
            last = pending.pop()
            if last in self.dependent:
                continue
            operation = self.rewriter.producers.get(last)
            operands = operation.operands if isinstance(operation, ir.Apply) else ()
            missing = [operand for operand in operands if operand not in self.dependent]
            if missing:
                pending += (last, *missing)
            else:
                self.dependent[last] = any(self.dependent[operand] for operand in operands)
        return self.dependent[raw]

    def inherits(self, raw: Value) -> frozenset[OverhangEdge]:
        """Return the edges of the old value as a value that is computed from it may have them."""
        if raw not in self.inherited:
            operation = self.rewriter.producers.get(raw)
            operands = operation.operands if self.depends(raw) and isinstance(operation, ir.Apply) else ()
            found = frozenset(edge for operand in operands for edge in self.inherits(operand))
            if isinstance(operation, ir.Apply) and operation.primitive.moves_lanes:
                bounds = (edge for edge in found if isinstance(edge, BoundEdge))
                found = frozenset(new for edge in bounds if (new := self.rewriter.moved(edge, operation)) is not None)
            is_alike = raw.type.lanes == self.old.type.lanes
            self.inherited[raw] = found | self.inherited[self.old] if is_alike and operands else found
        return self.inherited[raw]

    def of(self, raw: Value) -> TrackedTile:
        if raw not in self.known:
            self.known[raw] = self.computed(raw)
        return self.known[raw]

    def computed(self, raw: Value) -> TrackedTile:
        operation = self.rewriter.producers.get(raw)
        if not self.depends(raw) or not isinstance(operation, ir.Apply) or len(operation.results) != 1:
            return self.rewriter.tile(raw)
        if operation.function == "assign":
            return self.of(operation.operands[1])
        if operation.primitive.is_elementwise and not operation.primitive.effect.writes:
            return self.joined(operation)
        if operation.function == "dot" and len(operation.operands) == 3 and self.depends(operation.operands[2]):
            return self.joined(operation)
        if operation.primitive.moves_lanes:
            inner = self.of(operation.operands[0])
            if inner.value is self.rewriter.value(operation.operands[0]):
                value = self.rewriter.value(raw)
            else:
                value = self.again(operation, (inner.value,))
            found = [self.rewriter.moved(edge, operation) for edge in inner.edges]
            return TrackedTile(value, tuple(edge for edge in found if edge is not None))
        return self.rewriter.tile(raw)

    def again(self, operation: ir.Apply, operands: tuple[Value, ...]) -> Value:
        value = Value(operation.result.type, operation.result.hint)
        self.rewriter.builder.emit(replace(operation, operands=operands, results=(value,)))
        return value

    def joined(self, operation: ir.Apply) -> TrackedTile:
        """An operation of which an operand is a part of the old value."""
        rewriter, raw = self.rewriter, operation.result
        tiles = [self.of(operand) for operand in operation.operands]
        same = [tile.value is rewriter.value(operand) for tile, operand in zip(tiles, operation.operands, strict=True)]
        position = self.base(operation, tiles)
        if all(same):
            value, normal = rewriter.value(raw), rewriter.tile(raw)
        else:
            value = self.again(operation, tuple(tile.value for tile in tiles))
            normal = joined(rewriter, operation, tiles, value)
        if position is None:
            return joined(
                rewriter, operation, tiles, value
            )  # Of the parts, which may have fewer edges than all operands.
        base = tiles[position]
        others = [tile for place, tile in enumerate(tiles) if place != position]
        own = distinct((*base.edges, *(edge for edge in normal.edges if edge in self.inherits(raw))))
        lost = self.lost(operation, tiles, position, normal, own)
        if lost:
            rewriter.settle((pair for each in others for pair in each.clashes), None, operation.location)
        is_chosen = bool(lost) and not self.is_neutral(operation, tiles, position, lost)
        is_chosen = is_chosen and not rewriter.defers(base.value, lost)
        if is_chosen:
            mask = rewriter.builder.mask_of_some(lost, value.type)
            value = rewriter.builder.choice(mask, value, base.value)
        found = [(a, b) for a, b in clashes([base, *others]) if not (a in own and ends_later(a, b))]
        known = {edge: normal.held(edge) for edge in replace(base, edges=own).ends(rewriter.facts)}
        # A lane past an edge may be past a lost one, too, and holds the part then.
        known = {
            edge: number
            for edge, number in known.items()
            if number is not None and (not is_chosen or base.held(edge) == number)
        }
        return TrackedTile(value, own, known, clashes=tuple(found))

    def base(self, operation: ir.Apply, tiles: list[TrackedTile]) -> int | None:
        """The operand that stays where another is overhang: a part of the old value, of the result's type."""
        parts = [
            place
            for place, operand in enumerate(operation.operands)
            if self.depends(operand) and operand.type.dtype == operation.result.type.dtype
            and operand.type.lanes == operation.result.type.lanes
        ]  # fmt: skip

        def foreign(place: int) -> int:
            own = self.inherits(operation.operands[place])
            return sum(edge not in own for edge in tiles[place].edges)

        return min(parts, key=lambda place: (foreign(place), len(tiles[place].edges)), default=None)

    def lost(
        self,
        operation: ir.Apply,
        tiles: list[TrackedTile],
        position: int,
        normal: TrackedTile,
        own: tuple[OverhangEdge, ...],
    ) -> list[OverhangEdge]:
        """The edges of other operands that some use of the variable can tell, less its own."""
        if operation.function == "dot":
            met = normal.edges
        else:
            met = distinct(edge for place, tile in enumerate(tiles) if place != position for edge in tile.edges)
        hidden = self.rooms if operation.result.type.lanes == self.old.type.lanes else frozenset()
        return [
            edge for edge in met
            if edge.fails and edge not in own and not (isinstance(edge, BoundEdge) and edge.room in hidden)
        ]  # fmt: skip

    def is_neutral(
        self, operation: ir.Apply, tiles: list[TrackedTile], position: int, lost: list[OverhangEdge]
    ) -> bool:
        """Tell whether the other operand's contents past the edges leave the part unchanged."""
        if len(tiles) != 2:
            return False
        other = 1 - position
        number = contents.neutral(operation, other)
        return tiles[other].holds(number, lost)

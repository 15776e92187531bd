"""Assignments whose value depends on what the variable held: there, overhang of other operands adds nothing.

    total = total * exp(peak - new) + exp(x - new)
->  total = where(lane < n, total * exp(peak - new) + exp(x - new), total * exp(peak - new))

Lanes that are overhang of the old value itself stay that: `x = x - sum(x) / n` has as many elements as before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ninetoothed import ir
from ninetoothed.expr import Expr
from ninetoothed.ir import Value
from ninetoothed.ir.traversal import bottom_up
from ninetoothed.passes.overhang import contents
from ninetoothed.passes.overhang.carried import carried, moved
from ninetoothed.passes.overhang.edges import BoundEdge, OverhangEdge
from ninetoothed.passes.overhang.lanewise import joined
from ninetoothed.passes.overhang.tiles import TrackedTile, clashes, distinct, ends_later

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter


def assign(rewriter: OverhangRewriter, operation: ir.Apply) -> None:
    """Return the new value of a variable; where another operand is overhang, the part made of the old value stays."""
    old, new = operation.operands
    tile = _VariableUpdate(rewriter, old, rewriter.unread.get(operation.result)).updated(new)
    rewriter.set(operation.result, tile)


class _VariableUpdate:
    """Computes the new value of a variable again, from the `old` one."""

    def __init__(self, rewriter: OverhangRewriter, old: Value, unread: frozenset[Expr] | None):
        self.rewriter, self.old, self.unread = rewriter, old, unread or frozenset()
        self.known: dict[Value, TrackedTile] = {old: rewriter.tile(old)}
        self.dependent: dict[Value, bool] = {old: True}
        # Of values such as `a + x[i]`, the edges of x[i]: past them it is `a` alone.
        self.without: dict[Value, tuple[OverhangEdge, ...]] = defaultdict(tuple)
        self.inherited: dict[Value, frozenset[OverhangEdge]] = {old: frozenset(self.known[old].edges)}

    def depends(self, raw: Value) -> bool:
        """Tell whether a value is computed from the old one."""

        def operands(value: Value) -> tuple[Value, ...]:
            operation = self.rewriter.producers.get(value)
            return operation.operands if isinstance(operation, ir.Apply) else ()

        is_dependent: bool = bottom_up(
            raw, self.dependent, operands, lambda value: any(self.dependent[operand] for operand in operands(value))
        )
        return is_dependent

    def inherits(self, raw: Value) -> frozenset[OverhangEdge]:
        """Return the edges that a value may have from the old one: of `total.T` those of `total`, turned."""
        if raw not in self.inherited:
            operation = self.rewriter.producers.get(raw)
            operands = operation.operands if self.depends(raw) and isinstance(operation, ir.Apply) else ()
            found = frozenset(edge for operand in operands for edge in self.inherits(operand))
            if isinstance(operation, ir.Apply) and operation.primitive.moves_lanes:
                found = frozenset(self.moved(found, operation))
            is_alike = raw.type.lanes == self.old.type.lanes
            self.inherited[raw] = found | self.inherited[self.old] if is_alike and operands else found
        return self.inherited[raw]

    def moved(self, edges: Iterable[OverhangEdge], operation: ir.Apply) -> tuple[OverhangEdge, ...]:
        """Move the bounds among an operand's edges to the result: of `x[:, None]`, from axis 0 to axis 0 of two."""
        bounds = (edge for edge in edges if isinstance(edge, BoundEdge))
        return tuple(new for edge in bounds if (new := moved(self.rewriter, edge, operation)) is not None)

    def updated(self, raw: Value) -> TrackedTile:
        """Return the tile of a value in the new program."""
        if raw not in self.known:
            self.known[raw] = self.computed(raw)
        return self.known[raw]

    def computed(self, raw: Value) -> TrackedTile:
        """Make the tile of a value; one that is not computed from the old value keeps its own."""
        operation = self.rewriter.producers.get(raw)
        if not self.depends(raw) or not isinstance(operation, ir.Apply) or len(operation.results) != 1:
            return self.rewriter.tile(raw)
        if operation.function == "assign":
            tile = self.updated(operation.operands[1])
            self.without[raw] = self.without[operation.operands[1]]
            return tile
        is_accumulated = operation.function == "dot" and any(map(self.depends, operation.operands[2:]))
        if is_accumulated or (operation.primitive.is_elementwise and not operation.primitive.effect.writes):
            return self.joined(operation)
        if operation.primitive.moves_lanes:
            inner = self.updated(operation.operands[0])
            self.without[raw] = self.moved(self.without[operation.operands[0]], operation)
            return TrackedTile(self.again(operation, [inner]), carried(self.rewriter, operation, inner).edges)
        return self.rewriter.tile(raw)

    def again(self, operation: ir.Apply, tiles: list[TrackedTile]) -> Value:
        """Compute an operation again where its operands are others."""
        operands = tuple(tile.value for tile in tiles)
        if operands == tuple(map(self.rewriter.value, operation.operands)):
            return self.rewriter.value(operation.result)
        value = Value(operation.result.type, operation.result.hint)
        self.rewriter.builder.emit(replace(operation, operands=operands, results=(value,)))
        return value

    def joined(self, operation: ir.Apply) -> TrackedTile:
        """Rewrite `old + x`: past the ends of x it is `old`."""
        rewriter, raw = self.rewriter, operation.result
        tiles = [self.updated(operand) for operand in operation.operands]
        position = self.base(operation, tiles)
        value = self.again(operation, tiles)
        normal = joined(rewriter, operation, tiles, value)
        if position is None:
            return normal
        normal = rewriter.tile(raw) if value is rewriter.value(raw) else normal
        base, others = tiles[position], tiles[:position] + tiles[position + 1 :]
        own = distinct((*base.edges, *(edge for edge in normal.edges if edge in self.inherits(raw))))
        met = normal.edges if operation.function == "dot" else distinct(edge for each in others for edge in each.edges)
        lost = self.lost(operation, met, position, own)
        self.without[raw] = distinct((*self.without[operation.operands[position]], *(e for e in lost if e in met)))
        if lost:
            rewriter.check_clashes((pair for each in others for pair in each.clashes), None, operation.location)
        is_neutral = len(others) == 1 and others[0].holds(contents.neutral(operation, 1 - position), lost)
        stays = bool(lost) and not is_neutral and not rewriter.defers(base.value, lost)
        if stays:
            mask = rewriter.builder.mask_of_some(lost, value.type)
            value = rewriter.builder.choice(mask, value, base.value)
        # A lane past an edge may be past a lost one, too, and holds the part then.
        held = {edge: normal.held(edge) for edge in replace(base, edges=own).ends(rewriter.facts)}
        known = {edge: number for edge, number in held.items() if not stays or base.held(edge) == number}
        found = [(a, b) for a, b in clashes([base, *others]) if not (a in own and ends_later(a, b))]
        return TrackedTile(value, own, known, clashes=tuple(found))

    def base(self, operation: ir.Apply, tiles: list[TrackedTile]) -> int | None:
        """Choose the operand that stays where another is overhang: of `old * 2 + x`, `old * 2`."""
        parts = [
            place
            for place, operand in enumerate(operation.operands)
            if self.depends(operand) and operand.type.dtype == operation.result.type.dtype
            and operand.type.lanes == operation.result.type.lanes
        ]  # fmt: skip

        def order(place: int) -> tuple[int, int, int]:
            operand, edges = operation.operands[place], tiles[place].edges
            own = self.inherits(operand)
            return len(self.without[operand]), sum(edge not in own for edge in edges), len(edges)

        return min(parts, key=order, default=None)

    def lost(
        self, operation: ir.Apply, met: tuple[OverhangEdge, ...], position: int, own: tuple[OverhangEdge, ...]
    ) -> list[OverhangEdge]:
        """Return the edges past which the result is that operand alone: of `total += x`, those of x that total has not.

        Of `m + (x - m) * 0.5` both sides hold m. Past the ends of x the second has no x, so the first stays: m.
        """
        left = self.without[operation.operands[position]]
        met = distinct((*met, *(edge for raw in operation.operands for edge in self.without[raw] if edge not in left)))
        hidden = self.unread if operation.result.type.lanes == self.old.type.lanes else frozenset()
        return [
            edge for edge in met
            if edge.fails and edge not in own and not (isinstance(edge, BoundEdge) and edge.remaining in hidden)
        ]  # fmt: skip

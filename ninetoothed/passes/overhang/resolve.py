"""Rewrite a program, operation by operation, so that overhang never contributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ninetoothed import dtypes, ir
from ninetoothed.errors import ApplicationError
from ninetoothed.expr import Facts, simplify
from ninetoothed.ir import TileType, Value
from ninetoothed.ir.lanes import with_lanes
from ninetoothed.language.primitive import Effect, Number, Primitive
from ninetoothed.passes.operations import producers
from ninetoothed.passes.overhang import (
    assignment,
    between,
    contents,
    edges as edges_,
    entries,
    fills,
    lanewise,
    poison,
    products,
    reductions,
    regions,
    shapes,
)
from ninetoothed.passes.overhang.edges import BoundEdge, MaskEdge, OverhangEdge
from ninetoothed.passes.overhang.masks import MaskBuilder
from ninetoothed.passes.overhang.observed import unobserved
from ninetoothed.passes.overhang.tiles import EdgeClash, TrackedTile, distinct

Rule = Callable[["OverhangRewriter", ir.Apply], None]


def resolve(program: ir.Program, poison: bool = False) -> ir.Program:
    """Rewrite a program so that no result depends on overhang.

    poison: fill overhang with NaN, or the greatest integer, and emit every mask. If a result depends on overhang
    nevertheless, it differs, or storing it fails.

    Raises `ApplicationError` where tiles that end at different places are joined and then reduced.
    """
    return OverhangRewriter(program, poison).run()


class OverhangRewriter:
    """Rewrites a program.

    numbers: those that values of the old program hold in all lanes. fills: what loads hold past ends instead of 0, by
    their results. tiles: the current form of each value of the old program, and earlier ones, of which a reduction may
    like one better. deferred: for variables of loops at hand that only add up, the edges past which they are put right
    after the loop.
    """

    def __init__(self, program: ir.Program, poison: bool = False):
        wide = any(parameter.wide for parameter in program.parameters)
        self.program, self.unread, self.poison = program, unobserved(program), poison
        self.current = _Current(rewriter=self)
        self.builder = MaskBuilder(program.facts, dtypes.int64 if wide else dtypes.int32)
        self.tiles: dict[Value, tuple[TrackedTile, ...]] = {}
        self.deferred: dict[Value, dict[OverhangEdge, None]] = {}
        self.requirements: dict[ir.Requirement, None] = {}
        self.sizes = frozenset().union(*(e.variables for parameter in program.parameters for e in parameter.sizes))
        self.producers = producers(program.body)
        self.numbers = contents.constants(program.body)
        self.fills = {} if poison else fills.chosen(self)

    def run(self) -> ir.Program:
        """Rewrite all of the program."""
        for operation in self.program.body:
            self.operation(operation)
        requirements = (*self.program.requirements, *self.requirements)
        return replace(self.program, body=self.builder.top, facts=self.builder.facts, requirements=requirements)

    # -- what is known of values --

    @property
    def facts(self) -> Facts:
        return self.builder.facts

    def tile(self, raw: Value) -> TrackedTile:
        """Return the tile that stands for a value of the old program."""
        return self.tiles[raw][-1]

    def value(self, raw: Value) -> Value:
        """Return the value in place of one of the old program."""
        return self.tile(raw).value

    def set(self, raw: Value, tile: TrackedTile) -> None:
        """Let a tile stand for a value of the old program. Edges are dropped if no use of the value reads past them."""
        seen = tuple(edge for edge in tile.edges if self.is_seen(raw, edge))
        pairs = tuple(pair for pair in tile.clashes if all(self.is_seen(raw, edge) for edge in pair))
        self.tiles[raw] = (replace(tile, edges=seen, clashes=pairs, number=self.numbers.get(raw, tile.number)),)

    def set_read(self, raw: Value, tile: TrackedTile) -> None:
        """Let a value be a tile that is read from memory, or poison its overhang."""
        self.set(raw, replace(tile, contents={}) if self.poison else tile)
        if self.poison:
            poison.fill(self, raw)

    def is_seen(self, raw: Value, edge: OverhangEdge) -> bool:
        """Tell whether some use of a value reads lanes past an edge."""
        unread = self.unread.get(raw)
        return unread is not None and not (isinstance(edge, BoundEdge) and edge.remaining in unread)

    def add(self, raw: Value, tile: TrackedTile) -> None:
        """Add a form of a value, which is the current one from now on."""
        self.tiles[raw] = (*self.tiles[raw], tile)

    # -- masks --

    def mask(self, tile: TrackedTile) -> Value:
        """Emit the mask of all lanes of a tile: true where they are elements."""
        return self.builder.whole_mask(tile.edges, tile.value.type)

    def filled(self, raw: Value, number: Number | None, ends: Iterable[OverhangEdge]) -> TrackedTile:
        """Return a form of a value that holds a number past `ends`: one that there is, or a new one."""
        ends, tile = tuple(ends), self.tile(raw)
        for known in reversed(self.tiles[raw]):
            if not ends or known.holds(number, ends):
                return known
        past = distinct(e for end in ends for e in _instead(end, number))
        assert number is not None, "the primitive has an identity for each type that it takes"
        mask = self.builder.mask_of_some(past, tile.value.type)
        value = self.builder.choice(mask, tile.value, self.builder.number(number, tile.value.type))
        object.__setattr__(value, "hint", tile.value.hint)
        same = {edge: held for edge, held in tile.contents.items() if held == number}
        self.add(raw, replace(tile, value=value, contents={**same, **dict.fromkeys(ends, number)}, number=None))
        return self.tile(raw)

    def defers(self, base: Value, lost: Iterable[OverhangEdge]) -> bool:
        """Tell whether the loop at hand puts the old value back after its last round, in the lanes past edges."""
        deferred = self.deferred.get(base)
        if deferred is None:
            return False
        deferred.update(dict.fromkeys(lost))
        return True

    def check_clashes(
        self, pairs: Iterable[EdgeClash], axes: frozenset[int] | None, location: ir.SourceLocation | None
    ) -> None:
        """Raise where tiles that met end at different places along one of `axes`, or along any."""
        for a, b in pairs:
            if axes is None or a.axes & b.axes & axes:
                self.check_clash(a, b, location)

    def check_clash(self, a: OverhangEdge, b: OverhangEdge, location: ir.SourceLocation | None) -> None:
        """Raise where two edges are not the same, or let the call's sizes tell whether they are."""
        first, second = map(edges_.told, (a, b))
        message = (
            f"tiles that end at different places are joined and then reduced: {first} and {second}. Which elements are"
            " to count is not known; give the tensors `other=`, which then counts past their ends, or reduce each by"
            " itself"
        )
        sides = edges_.equal_counts(a, b, self.sizes) if isinstance(a, BoundEdge) and isinstance(b, BoundEdge) else None
        if sides is None:
            raise ApplicationError.at(f"kernel {self.program.name!r}: {message}", location)
        left, right = (simplify(side, self.facts) for side in sides)
        if left != right:
            self.requirements[ir.Requirement(left, right, message, location)] = None

    # -- operations --

    def block(self, block: ir.Block) -> None:
        """Rewrite the operations of a block."""
        for operation in block:
            self.operation(operation)

    def operation(self, operation: ir.Operation) -> None:
        """Rewrite an operation, and track its results."""
        self.builder.location = operation.location
        match operation:
            case ir.Constant(result=result) | ir.ScalarArgument(result=result):
                self.builder.emit(operation)
                self.set(result, TrackedTile(result))
            case ir.Index(result=result, bindings=bindings):
                self.builder.emit(self.current.rebuilt(operation))
                self.set(result, TrackedTile(result, self.edges_of_bound(bindings, result.type)))
            case ir.Load():
                self.load(operation)
            case ir.Store(access=access, value=raw):
                entries.check_store(self, access, self.tile(raw))
                if self.poison:
                    poison.check_store(self, access, self.tile(raw))
                self.builder.emit(self.current.rebuilt(operation))
            case ir.Loop():
                regions.loop(self, operation)
            case ir.If():
                regions.branch(self, operation)
            case ir.Print() | ir.Breakpoint():
                self.builder.emit(self.current.rebuilt(operation))
            case ir.Apply():
                rule_of(operation.primitive)(self, operation)

    def edges_of(self, access: ir.Access) -> tuple[BoundEdge, ...]:
        """Return the edges of a tile that is loaded from an access."""
        facts = with_lanes(self.facts, access.type.axes)
        own: dict[str, Any] = {"bindings": access.bindings, "parameter": access.parameter}
        return tuple(BoundEdge.of(edge, access.type.axes, facts, **own) for edge in access.edges)

    def edges_of_bound(self, bindings: ir.Bindings, type: TileType) -> tuple[OverhangEdge, ...]:
        """Collect the edges of the values that an access or an index is bound to."""
        tiles = (self.tile(value) for _, value in bindings)
        return distinct(edge for tile in tiles if tile.value.type.lanes == type.lanes for edge in tile.edges)

    def load(self, load: ir.Load) -> None:
        """Rewrite a load: it fills its overhang with what its uses need, where one number serves all."""
        access, result = load.access, load.result
        own = self.edges_of(access)
        bound = self.edges_of_bound(access.bindings, access.type)
        other = self.fills.get(result, access.other)
        self.builder.emit(self.current.rebuilt(replace(load, access=replace(access, other=other))))
        tile = TrackedTile(result, distinct((*own, *bound)))
        ends = (edge for edge in tile.ends(self.facts) if edge not in bound)
        self.set_read(result, replace(tile, contents=dict.fromkeys(ends, other)))

    def untouched(self, operation: ir.Apply) -> None:
        """Keep an operation as it is: what overhang its operands have does not matter."""
        self.emit(operation, tuple(map(self.value, operation.operands)))
        for result in operation.results:
            self.set(result, TrackedTile(result))

    def emit(self, operation: ir.Apply, operands: tuple[Value, ...]) -> None:
        """Emit an application with other operands."""
        self.builder.emit(replace(operation, operands=operands))


@dataclass(kw_only=True)
class _Current(ir.Rewriter):
    """Rebuilds operations with the values of the new program, and accesses without edges."""

    rewriter: OverhangRewriter

    def access(self, operation: ir.Load | ir.Store) -> ir.Access:
        return replace(super().access(operation), edges=())

    def new(self, value: Value) -> Value:
        return value

    def value(self, value: Value) -> Value:
        # A breakpoint may show a value of another scope.
        return self.rewriter.value(value) if value in self.rewriter.tiles else value


def rule_of(primitive: Primitive) -> Rule:
    """Return the rule that rewrites operations of a primitive; KeyError where there is none."""
    if primitive.name in _OWN:
        return _OWN[primitive.name]
    if primitive.is_elementwise and primitive.effect is Effect.CHECKS:
        return products.check
    if primitive.is_elementwise and primitive.effect is Effect.UPDATES:
        return products.atomic if primitive.is_masked else OverhangRewriter.untouched
    if primitive.is_elementwise:
        return lanewise.elementwise
    if primitive.moves_lanes:
        return shapes.move
    if primitive.folds:
        return reductions.combine if primitive.has_combine else reductions.fold
    raise KeyError(f"the pass `overhang` has no rule for {primitive.name!r}")


_OWN: dict[str, Rule] = {
    "assign": assignment.assign,
    "where": lanewise.where,
    "passed": between.passed,
    "sort": reductions.fold,
    "count": reductions.count,
    "histogram": reductions.histogram,
    "dot": products.dot,
    "dot_scaled": OverhangRewriter.untouched,
    **shapes.SHUFFLES,
}


def _instead(edge: OverhangEdge, number: Number | None) -> tuple[OverhangEdge, ...]:
    """Return the edges past which to fill: of a mask those that it was made of, if it knows them (see `MaskEdge`)."""
    return edge.edges if isinstance(edge, MaskEdge) and edge.edges and edge.number == number else (edge,)

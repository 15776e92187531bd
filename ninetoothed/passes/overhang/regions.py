"""Rewrite loops and branches, and find the edges of variables after them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ninetoothed import ir
from ninetoothed.dtypes import int1
from ninetoothed.ir import TileType, Value
from ninetoothed.language.primitive import Number
from ninetoothed.passes.overhang.edges import MaskEdge, OverhangEdge
from ninetoothed.passes.overhang.tiles import TrackedTile

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter


@dataclass
class _LoopCarried:
    """A loop-carried variable, with the same edges in each round or with a loop-carried mask."""

    initial: TrackedTile
    argument: Value
    result: Value
    edges: tuple[OverhangEdge, ...] = ()
    contents: dict[OverhangEdge, Number | None] = field(default_factory=dict)
    masks: tuple[Value, Value] | None = None
    is_deferred: bool = False

    @classmethod
    def of(cls, rewriter: OverhangRewriter, initial: TrackedTile, argument: Value, result: Value) -> _LoopCarried:
        ends = initial.ends(rewriter.facts)
        held = {edge: initial.held(edge) for edge in ends if initial.held(edge) is not None}
        carried = cls(initial, argument, result, initial.edges, held)
        rewriter.set(argument, replace(initial, value=argument))
        carried.edges = rewriter.tile(argument).edges
        return carried

    def at(self, value: Value, mask: int) -> TrackedTile:
        """Return the variable as a round sees it (mask 0), or as it is after the loop (mask 1)."""
        own = self.edges if self.masks is None else (MaskEdge(self.masks[mask]),)
        return TrackedTile(value, own, dict(self.contents))

    def settles(self, rewriter: OverhangRewriter, end: TrackedTile, counter: frozenset[str], inner: set[Value]) -> bool:
        """Merge the variable's edges at the end of a round into those at its start; tell whether these stay."""
        rewriter.set(self.argument, end)  # drops the edges that nobody can tell
        left = rewriter.tile(self.argument)
        held = {edge: number for edge, number in self.contents.items() if end.held(edge) == number}
        if self.masks is None:
            is_same = {e for e in left.edges if e.fails} == {e for e in self.edges if e.fails}
            if not is_same or any(_is_inner(edge, counter, inner) for edge in left.edges if edge.fails):
                type = TileType(int1, self.argument.type.shape, self.argument.type.lanes)
                self.masks, self.contents, self.edges = (Value(type), Value(type)), {}, ()
                return False
            self.edges = tuple(edge for edge in self.edges if edge in left.edges)
        is_settled = held == self.contents
        self.contents = held
        return is_settled


def _is_inner(edge: OverhangEdge, counter: frozenset[str], inner: set[Value]) -> bool:
    """Tell whether an edge depends on names that only the loop knows."""
    if isinstance(edge, MaskEdge):
        return edge.value in inner
    return bool(edge.names & counter) or any(value in inner for name, value in edge.bindings if name in edge.names)


def loop(rewriter: OverhangRewriter, operation: ir.For | ir.While) -> None:
    """Rewrite a loop: rounds are traced until its variables have the same edges before and after one."""
    rows = zip(operation.initial, operation.arguments, operation.results, strict=True)
    carried = [
        _LoopCarried.of(rewriter, rewriter.tile(initial), argument, result) for initial, argument, result in rows
    ]
    for each, end in zip(carried, operation.yields, strict=True):
        each.is_deferred = _only_accumulates(rewriter, operation, each.argument, end)
    entered = dict(rewriter.tiles)
    while True:
        rewriter.tiles = dict(entered)
        traced = _Round.of(rewriter, operation, carried)
        if _is_settled(rewriter, operation, carried, traced):
            break
    rewriter.tiles = entered
    rewriter.builder.location = operation.location
    new = _with_masks(rewriter, operation, carried, traced)
    rewriter.builder.emit(new)
    for each in carried:
        # Past the edges, what is made of two parts need not be what each of them holds there.
        each.contents = {} if isinstance(new, ir.For) and new.merge is not None else each.contents
        rewriter.set(each.result, each.at(each.result, 1))
        if lost := traced.deferred.get(each.argument):
            mask = rewriter.builder.mask_of_some(lost, each.result.type)
            value = rewriter.builder.choice(mask, each.result, each.initial.value)
            rewriter.add(each.result, replace(rewriter.tile(each.result), value=value))


@dataclass
class _Round:
    """A round of a loop, rewritten: its body, and its variables at its end.

    masked: for each variable with a mask carried beside it, the masks, the initial tile, and the mask at the end.
    deferred: the edges past which accumulating variables were changed, which is undone after the loop.
    """

    body: list[ir.Operation]
    ends: list[TrackedTile]
    masked: list[tuple[tuple[Value, Value], TrackedTile, Value]]
    deferred: dict[Value, dict[OverhangEdge, None]] = field(default_factory=dict)

    @classmethod
    def of(cls, rewriter: OverhangRewriter, operation: ir.For | ir.While, carried: list[_LoopCarried]) -> _Round:
        for each in carried:
            rewriter.tiles[each.argument] = (each.at(each.argument, 0),)
        rewriter.deferred = {**rewriter.deferred, **{each.argument: {} for each in carried if each.is_deferred}}
        with rewriter.builder.block() as body:
            rewriter.block(operation.body)
            ends = [rewriter.tile(raw) for raw in operation.yields]
            masked = [
                (each.masks, each.initial, _whole_mask(rewriter, end))
                for each, end in zip(carried, ends, strict=True)
                if each.masks
            ]
        return cls(body, ends, masked)


def _is_settled(
    rewriter: OverhangRewriter, operation: ir.For | ir.While, carried: list[_LoopCarried], traced: _Round
) -> bool:
    """Take in how variables are at the end of a round; tell whether another round would be the same."""
    counter = frozenset((operation.variable,)) if isinstance(operation, ir.For) else frozenset()
    inner = {result for each in ir.walk(tuple(traced.body)) for result in ir.results(each)}
    inner |= {mask for (mask, _), _, _ in traced.masked}
    settled = [each.settles(rewriter, end, counter, inner) for each, end in zip(carried, traced.ends, strict=True)]
    traced.deferred = {each.argument: rewriter.deferred.pop(each.argument) for each in carried if each.is_deferred}
    for each in carried:
        if any(_is_inner(edge, counter, inner) for edge in traced.deferred.get(each.argument, ())):
            each.is_deferred, settled = False, [False]
    return all(settled)


def _with_masks(
    rewriter: OverhangRewriter, operation: ir.For | ir.While, carried: list[_LoopCarried], traced: _Round
) -> ir.For | ir.While:
    """Return the loop with its new body, which carries masks beside the variables whose edges change."""
    new = replace(
        operation,
        body=tuple(traced.body),
        initial=(
            *(each.initial.value for each in carried),
            *(_whole_mask(rewriter, initial) for _, initial, _ in traced.masked),
        ),
        arguments=(*operation.arguments, *(pair[0] for pair, _, _ in traced.masked)),
        yields=(*(end.value for end in traced.ends), *(mask for _, _, mask in traced.masked)),
        results=(*operation.results, *(pair[1] for pair, _, _ in traced.masked)),
    )
    if isinstance(new, ir.While):
        return new
    # A mask that the loop carries is no variable that `merge` takes.
    merge = new.merge if not traced.masked else None
    return replace(new, bindings=rewriter.bound(new.bindings), merge=merge and _current(rewriter, merge))


def _current(rewriter: OverhangRewriter, merge: ir.Lambda) -> ir.Lambda:
    """Let what merges parts read the current forms of values from before the loop."""
    own = {*merge.arguments, *(result for operation in merge.body for result in ir.results(operation))}
    read = {value for operation in merge.body for value in ir.operands(operation)} | set(merge.yields)
    return ir.Rewriter(values={value: rewriter.value(value) for value in read - own}).function(merge)


def _only_accumulates(rewriter: OverhangRewriter, loop: ir.For | ir.While, argument: Value, end: Value) -> bool:
    """Tell whether a variable is only ever replaced by an operation on itself, `total += x[i]`, once a round.

    What other operands are past their edges then need not be kept out of it in each round.
    """
    assignment = rewriter.producers.get(end)
    if (
        not isinstance(assignment, ir.Apply)
        or assignment.function != "assign"
        or assignment.operands[0] is not argument
    ):
        return False
    uses = [operation for operation in ir.walk(loop.body) if argument in ir.operands(operation)]
    update = rewriter.producers.get(assignment.operands[1])
    others = [operation for operation in ir.walk(loop.body) if end in ir.operands(operation)]
    at_once = all(operation in loop.body for operation in (assignment, update))
    return len(uses) == 2 and set(map(id, uses)) == {id(assignment), id(update)} and not others and at_once


def _whole_mask(rewriter: OverhangRewriter, tile: TrackedTile) -> Value:
    """Compute a mask of all lanes of a tile: true where they are not past an edge."""
    type = TileType(int1, tile.value.type.shape, tile.value.type.lanes)
    mask = rewriter.builder.mask(tile.edges, type)
    return rewriter.builder.number(True, type) if mask is None else rewriter.builder.stretched(mask, type)


@dataclass
class _Side:
    """A branch of an `if`, rewritten: its operations, and its results as it yields them and as later uses see them.

    masks: those of the results. inner: the values that the branch defines.
    """

    operations: list[ir.Operation]
    yields: list[TrackedTile]
    seen: list[TrackedTile]
    masks: list[Value]
    inner: set[Value]

    @classmethod
    def of(cls, rewriter: OverhangRewriter, body: ir.Block, yields: tuple[Value, ...], operation: ir.If) -> _Side:
        with rewriter.builder.block() as operations:
            rewriter.block(body)
            tiles = [rewriter.tile(raw) for raw in yields]
            for raw, result in zip(yields, operation.results, strict=True):
                rewriter.set(result, rewriter.tile(raw))
            seen = [rewriter.tile(result) for result in operation.results]
            masks = [_whole_mask(rewriter, tile) for tile in seen]
        inner = {result for o in ir.walk(tuple(operations)) for result in ir.results(o)}
        return cls(operations, tiles, seen, masks, inner)

    def is_inner(self, position: int) -> bool:
        """Tell whether a result has an edge that means something inside the branch alone."""
        return any(_is_inner(edge, frozenset(), self.inner) for edge in self.seen[position].edges)

    def all_yields(self, masked: Iterable[int]) -> tuple[Value, ...]:
        """Return what the branch yields: its results, and the masks of some of them."""
        return (*(tile.value for tile in self.yields), *(self.masks[position] for position in masked))


def branch(rewriter: OverhangRewriter, operation: ir.If) -> None:
    """Rewrite an `if`: a result whose edges depend on the side taken gets a mask beside it."""
    entered = dict(rewriter.tiles)
    condition = rewriter.value(operation.condition)
    sides = []
    for body, yields in ((operation.then_body, operation.then_yields), (operation.else_body, operation.else_yields)):
        rewriter.tiles = dict(entered)
        sides.append(_Side.of(rewriter, body, yields, operation))
    rewriter.tiles = entered
    then, otherwise = sides
    pairs = list(zip(operation.results, then.seen, otherwise.seen, strict=True))
    masked: dict[int, Value] = {}
    for position, (result, a, b) in enumerate(pairs):
        is_same = {e for e in a.edges if e.fails} == {e for e in b.edges if e.fails}
        if not is_same or any(side.is_inner(position) for side in sides):
            masked[position] = Value(TileType(int1, result.type.shape, result.type.lanes))
    rewriter.builder.emit(
        replace(
            operation,
            condition=condition,
            then_body=tuple(then.operations),
            else_body=tuple(otherwise.operations),
            then_yields=then.all_yields(masked),
            else_yields=otherwise.all_yields(masked),
            results=(*operation.results, *masked.values()),
        )
    )
    for position, (result, a, b) in enumerate(pairs):
        if position in masked:
            rewriter.set(result, TrackedTile(result, (MaskEdge(masked[position]),)))
        else:
            held = {e: a.held(e) for e in a.ends(rewriter.facts) if a.held(e) is not None and a.held(e) == b.held(e)}
            rewriter.set(result, TrackedTile(result, a.edges, held))

"""Rewrite loops and branches, and find the edges of variables after them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ninetoothed import ir
from ninetoothed.dtypes import int1
from ninetoothed.ir import Value
from ninetoothed.language.primitive import Number
from ninetoothed.passes.overhang.edges import MaskEdge, OverhangEdge
from ninetoothed.passes.overhang.tiles import TrackedTile

if TYPE_CHECKING:
    from ninetoothed.passes.overhang.resolve import OverhangRewriter


@dataclass
class _LoopCarried:
    """A loop-carried variable, with the same edges in each round or with a loop-carried mask.

    initial: its tile before the loop. masks: those at the start of a round and after the loop.
    end, end_mask: its tile and its mask at the end of the last round.
    lost: the edges past which rounds change it and should not; the old value is put back after the loop (see
        `_only_accumulates`).
    """

    own: ir.Carried
    initial: TrackedTile
    edges: tuple[OverhangEdge, ...]
    contents: dict[OverhangEdge, Number | None]
    is_deferred: bool
    end: TrackedTile
    masks: tuple[Value, Value] | None = None
    end_mask: Value | None = None
    lost: Mapping[OverhangEdge, None] = field(default_factory=dict)

    @classmethod
    def of(cls, rewriter: OverhangRewriter, loop: ir.Loop, own: ir.Carried) -> _LoopCarried:
        initial = rewriter.tile(own.initial)
        ends = initial.ends(rewriter.facts)
        held = {edge: initial.held(edge) for edge in ends}
        rewriter.set(own.argument, replace(initial, value=own.argument))
        edges = rewriter.tile(own.argument).edges
        return cls(own, initial, edges, held, _only_accumulates(rewriter, loop, own), end=initial)

    @property
    def height(self) -> int:
        """Count the changes left: each round but the last forgets a number, adds a mask or stops deferring."""
        return len(self.contents) + (self.masks is None) + self.is_deferred

    def at(self, value: Value, mask: int) -> TrackedTile:
        """Return the variable as a round sees it (mask 0), or as it is after the loop (mask 1)."""
        own = self.edges if self.masks is None else (MaskEdge(self.masks[mask]),)
        return TrackedTile(value, own, dict(self.contents))

    def join_round(self, rewriter: OverhangRewriter, counter: frozenset[str], inner: set[Value]) -> None:
        """Merge the variable's edges at the end of a round into those at its start."""
        rewriter.set(self.own.argument, self.end)  # drops the edges that nobody can tell
        left = rewriter.tile(self.own.argument)
        if self.masks is None:
            is_same = {e for e in left.edges if e.fails} == {e for e in self.edges if e.fails}
            if not is_same or any(_is_inner(edge, counter, inner) for edge in left.edges if edge.fails):
                type = self.own.argument.type.with_dtype(int1)
                self.masks, self.contents, self.edges = (Value(type), Value(type)), {}, ()
            self.edges = tuple(edge for edge in self.edges if edge in left.edges)
        self.contents = {edge: number for edge, number in self.contents.items() if self.end.held(edge) == number}
        self.is_deferred &= not any(_is_inner(edge, counter, inner) for edge in self.lost)


def _is_inner(edge: OverhangEdge, counter: frozenset[str], inner: set[Value]) -> bool:
    """Tell whether an edge depends on a counter, or on a value, of the loop itself."""
    if isinstance(edge, MaskEdge):
        return edge.value in inner
    return bool(edge.names & counter) or any(value in inner for name, value in edge.bindings if name in edge.names)


def loop(rewriter: OverhangRewriter, operation: ir.Loop) -> None:
    """Rewrite a loop: rounds are traced until its variables have the same edges before and after one."""
    carried = [_LoopCarried.of(rewriter, operation, each) for each in operation.carried]
    entered, body = dict(rewriter.tiles), operation.body
    height = -1
    while height != (height := sum(each.height for each in carried)):  # Each round but the last makes it less.
        rewriter.tiles = dict(entered)
        body = _round(rewriter, operation, carried)
    rewriter.tiles = entered
    rewriter.builder.location = operation.location
    new = _with_masks(rewriter, operation, carried, body)
    rewriter.builder.emit(new)
    for each in carried:
        result = each.own.result
        # Past the edges, what is made of two parts need not be what each of them holds there.
        each.contents = {} if isinstance(new, ir.For) and new.merge is not None else each.contents
        rewriter.set(result, each.at(result, 1))
        if each.lost:
            mask = rewriter.builder.mask_of_some(each.lost, result.type)
            value = rewriter.builder.choice(mask, result, each.initial.value)
            rewriter.add(result, replace(rewriter.tile(result), value=value))


def _round(rewriter: OverhangRewriter, operation: ir.Loop, carried: list[_LoopCarried]) -> ir.Block:
    """Rewrite a round of a loop, and take in how the variables are at its end."""
    for each in carried:
        rewriter.tiles[each.own.argument] = (each.at(each.own.argument, 0),)
    rewriter.deferred = {**rewriter.deferred, **{each.own.argument: {} for each in carried if each.is_deferred}}
    with rewriter.builder.block() as body:
        rewriter.block(operation.body)
        for each in carried:
            each.end = rewriter.tile(each.own.yielded)
        for each in carried:
            each.end_mask = rewriter.mask(each.end) if each.masks else None
    counter = frozenset((operation.variable,)) if isinstance(operation, ir.For) else frozenset()
    inner = {result for each in ir.walk(tuple(body)) for result in ir.results(each)}
    inner |= {each.masks[0] for each in carried if each.masks}
    for each in carried:
        each.lost = rewriter.deferred.pop(each.own.argument, {})
        each.join_round(rewriter, counter, inner)
    return tuple(body)


def _with_masks(rewriter: OverhangRewriter, operation: ir.Loop, carried: list[_LoopCarried], body: ir.Block) -> ir.Loop:
    """Return the loop with its new body, which carries masks beside the variables whose edges change."""
    variables = [replace(each.own, initial=each.initial.value, yielded=each.end.value) for each in carried]
    masks = [
        ir.Carried(rewriter.mask(each.initial), each.masks[0], each.end_mask, each.masks[1])
        for each in carried
        if each.masks is not None and each.end_mask is not None
    ]
    new = replace(operation, carried=(*variables, *masks), body=body)
    if not isinstance(new, ir.For):
        return new
    # A mask that the loop carries is no variable that `merge` takes.
    merge = None if masks else new.merge
    current = rewriter.current
    return replace(new, bindings=current.bindings(new.bindings), merge=merge and current.function(merge))


def _only_accumulates(rewriter: OverhangRewriter, loop: ir.Loop, own: ir.Carried) -> bool:
    """Tell whether a variable is only ever replaced by an operation on itself, `total += x[i]`, once a round.

    What other operands are past their edges then need not be kept out of it in each round.
    """
    assignment = rewriter.producers.get(own.yielded)
    if not isinstance(assignment, ir.Apply) or assignment.function != "assign":
        return False
    old, new = assignment.operands
    uses = [each for each in ir.walk(loop.body) if {own.argument, own.yielded} & {*ir.operands(each)}]
    steps = [rewriter.producers.get(new), assignment]
    return old is own.argument and uses == steps and all(step in loop.body for step in steps)


@dataclass
class _End:
    """A result at the end of a branch: as the branch yields it, as later uses see it, and the mask of that."""

    yielded: TrackedTile
    seen: TrackedTile
    mask: Value
    is_inner: bool = False


def _side(
    rewriter: OverhangRewriter, body: ir.Block, yields: tuple[Value, ...], operation: ir.If
) -> tuple[ir.Block, list[_End]]:
    """Rewrite a branch of an `if`. Returns its operations, and its results with their masks."""
    with rewriter.builder.block() as operations:
        rewriter.block(body)
        tiles = [rewriter.tile(raw) for raw in yields]
        for tile, result in zip(tiles, operation.results, strict=True):
            rewriter.set(result, tile)
        seen = [rewriter.tile(result) for result in operation.results]
        ends = [_End(tile, own, rewriter.mask(own)) for tile, own in zip(tiles, seen, strict=True)]
    inner = {result for o in ir.walk(tuple(operations)) for result in ir.results(o)}
    for end in ends:
        end.is_inner = any(_is_inner(edge, frozenset(), inner) for edge in end.seen.edges)
    return tuple(operations), ends


def branch(rewriter: OverhangRewriter, operation: ir.If) -> None:
    """Rewrite an `if`: a result whose edges depend on the side taken gets a mask beside it."""
    entered = dict(rewriter.tiles)
    condition = rewriter.value(operation.condition)
    then_body, then_ends = _side(rewriter, operation.then_body, operation.then_yields, operation)
    rewriter.tiles = dict(entered)
    else_body, else_ends = _side(rewriter, operation.else_body, operation.else_yields, operation)
    rewriter.tiles = entered
    masks, tiles = [], []
    for result, a, b in zip(operation.results, then_ends, else_ends, strict=True):
        held = {e: n for e in a.seen.ends(rewriter.facts) if (n := a.seen.held(e)) == b.seen.held(e)}
        tile = TrackedTile(result, a.seen.edges, held)
        is_same = {e for e in a.seen.edges if e.fails} == {e for e in b.seen.edges if e.fails}
        if not is_same or a.is_inner or b.is_inner:
            mask = Value(result.type.with_dtype(int1))
            masks.append(ir.Outcome(a.mask, b.mask, mask))
            tile = TrackedTile(result, (MaskEdge(mask),))
        tiles.append(tile)
    yields = ([end.yielded.value for end in ends] for ends in (then_ends, else_ends))
    outcomes = (*ir.Outcome.of(*yields, operation.results), *masks)
    rewriter.builder.emit(
        replace(operation, condition=condition, then_body=then_body, else_body=else_body, outcomes=outcomes)
    )
    for tile in tiles:
        rewriter.set(tile.value, tile)

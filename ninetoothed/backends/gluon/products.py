"""The warps that compute: products run on while what follows does not need them.

    scores = warpgroup_mma(query, key, ..., is_async=True)
    total = warpgroup_mma(weights, value, total, is_async=True)
    scores = warpgroup_mma_wait(1, (scores,))
    ...  # exponentials of scores run beside the second product
    total = warpgroup_mma_wait(0, (total,))

A product is waited for just before what first reads its result; then its tile of a ring is free again.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from ninetoothed import ir
from ninetoothed.backends.gluon import layouts
from ninetoothed.backends.gluon.form import Form
from ninetoothed.backends.gluon.rings import Ring, SharedTiles, at, copy
from ninetoothed.backends.triton import accesses, descriptors, syntax
from ninetoothed.backends.triton.analysis import OperationPlace
from ninetoothed.backends.triton.context import EmitContext, ValueText
from ninetoothed.backends.triton.functions import dtype_node, materialise
from ninetoothed.backends.triton.tiles import TilePrinter
from ninetoothed.backends.triton.variables import target
from ninetoothed.dtypes import int1, int32
from ninetoothed.expr import Expr, var
from ninetoothed.passes.operations import is_dot


@dataclass(frozen=True)
class RunningProduct:
    """A product that was issued: its result, the slot of a ring that it reads, and its left operand in registers."""

    result: ir.Value
    ring: Ring
    slot: str
    operand: str | None


@dataclass
class ComputingWarps:
    """Prints loads as waits for tiles, and products as running on.

    task: the number of the task among those that compute.
    running: the products that were issued and not yet waited for. slots: where tiles of rings are. counter: that of the
    loop that was opened last. is_awaited: whether the tile that is taken next in it was waited for in the round before.
    """

    form: Form
    task: ast.expr
    running: list[RunningProduct] = field(default_factory=list)
    slots: dict[ir.Value, tuple[Ring, str]] = field(default_factory=dict)
    counter: str = ""
    is_awaited: bool = False

    def prints(self, context: EmitContext, operation: ir.Operation, place: OperationPlace) -> bool:
        """Print an operation that Gluon spells differently; False where Triton's printer is to."""
        match operation:
            case ir.Load() if operation in self.form.looked_at:
                self._look_at(context, operation, self.form.rings[operation], place)
            case ir.Load() if operation in self.form.rings:
                self._take(context, operation, self.form.rings[operation])
            case ir.Load() if operation in self.form.resident:
                self._bring(context, operation, self.form.resident[operation])
            case ir.Apply(function="permute", operands=(tile,)) if tile in self.slots or self._is_resident(tile):
                self._turn(context, operation)
            case ir.Apply() if is_dot(operation):
                if not _is_added(context, operation):
                    self._multiply(context, operation, operation.result, None, place)
            case ir.Apply(function="add", operands=operands) if any(map(_dot_of(context), operands)):
                product, total = operands if _dot_of(context)(operands[0]) else operands[::-1]
                self._await(context, ir.reads(operation))
                self._multiply(context, _dot_of(context)(product), operation.result, total, place)
            case ir.Apply(function="full", results=(tile,)) if _is_read_elsewhere(context, tile):
                name = target(context, tile, place, tile.hint or "tile", tile.type.lanes)
                context.append(syntax.assign(name, materialise(context.texts[operation.operands[0]], tile.type)))
                context.texts.hold(tile, name, tile.type.lanes)
            case ir.Store() if operation in self.form.stored:
                self._await(context, None)
                self._store(context, operation, self.form.stored[operation])
            case _:
                self._await(context, None if ir.blocks(operation) else ir.reads(operation))
                if isinstance(operation, ir.For):
                    self._enter(context, operation)
                return False
        return True

    def ends(self, context: EmitContext) -> None:
        self._await(context, None)

    # -- tiles --

    def _take(self, context: EmitContext, load: ir.Load, ring: Ring) -> None:
        """Wait for the next tile of a ring."""
        slot = context.assign(f"{load.access.parameter}_slot", ring.slot())
        if ring is self._first and self.is_awaited:
            self.is_awaited = False
        else:
            context.run(syntax.call("mbarrier.wait", at(ring.ready, slot), ring.parity()))
        context.append(ring.counted())
        assert isinstance(slot, ast.Name)
        self._hold(context, load, ring.tile_in(slot), ring)
        self.slots[load.result] = ring, slot.id

    def _look_at(self, context: EmitContext, load: ir.Load, ring: Ring, place: OperationPlace) -> None:
        """Read the next tile of a ring of one's own, once all else is there that it meets, and free it at once."""
        met = (use.operation for use in context.analysis.uses.get(load.result, ()) if use.operation is not None)
        self._await(context, tuple(value for operation in met for value in ir.reads(operation)))
        slot = context.assign(f"{load.access.parameter}_slot", ring.slot(self.task))
        context.run(syntax.call("mbarrier.wait", at(ring.ready, slot), ring.parity()))
        context.append(ring.counted())
        tile = syntax.method(ring.tile_in(slot), "load", syntax.name(layouts.NAME))
        if load.result.type.dtype == int1:
            tile = syntax.binary("!=", tile, syntax.number(0))
        name = target(context, load.result, place, load.result.hint or load.access.parameter, load.result.type.lanes)
        context.append(syntax.assign(name, accesses.filled(context, load, tile)))
        context.texts.hold(load.result, name, load.result.type.lanes)
        context.run(syntax.call("fence_async_shared"))  # The next copy into the slot comes after these reads.
        context.run(syntax.call("mbarrier.arrive", at(ring.free, slot), count=1))

    def _bring(self, context: EmitContext, load: ir.Load, buffer: SharedTiles) -> None:
        """Copy a tile that stays, and wait for it."""
        ready, tile = at(buffer.ready, self.task), self.form.tiles[load]
        context.run(syntax.call("mbarrier.expect", ready, buffer.bytes))
        copied = descriptors.descriptor(context, tile), descriptors.offsets(context, load.access, tile)
        context.run(copy(context, 0, *copied, ready, at(buffer.tiles, self.task)))
        context.run(syntax.call("mbarrier.wait", ready, 0))
        self._hold(context, load, buffer.tile_in(self.task), buffer)

    def _hold(self, context: EmitContext, load: ir.Load, node: ast.expr, buffer: SharedTiles) -> None:
        """Let a variable stand for a tile in shared memory, with its axes in the order of the program's."""
        order = [axis for axis in buffer.tile.axes if axis is not None]
        if order != sorted(order):
            node = _turned(node, tuple(order.index(axis) for axis in sorted(order)))
        name = context.fresh(load.result.hint or load.access.parameter, ("shared", load.result.type.lanes))
        context.append(syntax.assign(name, node))
        context.texts.hold(load.result, name, load.result.type.lanes)

    def _turn(self, context: EmitContext, operation: ir.Apply) -> None:
        (tile,) = operation.operands
        lanes = operation.result.type.lanes
        dims = tuple(dim % len(lanes) for dim in operation.attribute("dims"))
        context.texts[operation.result] = ValueText(_turned(context.texts[tile].node, dims), lanes)
        if tile in self.slots:
            self.slots[operation.result] = self.slots[tile]

    def _is_resident(self, value: ir.Value) -> bool:
        return any(load.result is value for load in self.form.resident)

    def _store(self, context: EmitContext, store: ir.Store, buffer: SharedTiles) -> None:
        """Copy a tile out, by way of shared memory."""
        tile = self.form.tiles[store]
        value = materialise(context.texts[store.value], store.access.type)
        context.run(syntax.method(buffer.tile_in(self.task), "store", value))
        context.run(syntax.call("fence_async_shared"))
        copied = descriptors.descriptor(context, tile), descriptors.offsets(context, store.access, tile)
        context.run(copy(context, 1, *copied, at(buffer.tiles, self.task)))
        context.run(syntax.call("tma.store_wait", 0))

    # -- products --

    def _multiply(
        self, context: EmitContext, dot: ir.Apply, result: ir.Value, total: ir.Value | None, place: OperationPlace
    ) -> None:
        """Issue a product, which is added to `total` if there is one."""
        left, right = dot.operands
        ring, slot = self.slots[right]
        node, operand = context.texts[left].node, None
        if not self._is_resident(left):
            self._await(context, (left,))
            layout = syntax.call("tl.DotOperandLayout", 0, syntax.name(layouts.NAME), 32 // left.type.dtype.bits)
            value = materialise(context.texts[left], left.type)
            held = context.assign("operand", syntax.call("tl.convert_layout", value, layout))
            assert isinstance(held, ast.Name)
            node, operand = held, held.id
        if total is None:
            start = syntax.call("tl.zeros", result.type.lanes, dtype_node(result.type.dtype))
        else:
            start = materialise(context.texts[total], total.type)
        options = {"use_acc": False if total is None else None, "is_async": True}
        product = syntax.call("warpgroup_mma", node, context.texts[right].node, start, **options)
        name = target(context, result, place, result.hint or dot.function, result.type.lanes)
        context.append(syntax.assign(name, product))
        context.texts.hold(result, name, result.type.lanes)
        self.running.append(RunningProduct(result, ring, slot, operand))

    def _await(self, context: EmitContext, values: tuple[ir.Value, ...] | None) -> None:
        """Wait for the products whose results are read, and for those before them; None for all."""
        last = max((n for n, each in enumerate(self.running, 1) if values is None or each.result in values), default=0)
        done, self.running = self.running[:last], self.running[last:]
        if not done:
            return
        if not self.running and context.scopes[-1].repeats:
            self._await_next_tile(context, var(self.counter) + 1)
        names = [context.texts[each.result].node for each in done]
        names += [syntax.name(each.operand) for each in done if each.operand is not None]
        wait = syntax.call("warpgroup_mma_wait", len(self.running), ast.Tuple(names))
        context.append(syntax.assign(tuple(map(syntax.text_of, names)), wait))
        for each in done:
            context.run(syntax.call("mbarrier.arrive", at(each.ring.free, syntax.name(each.slot)), count=1))

    def _enter(self, context: EmitContext, loop: ir.For) -> None:
        """Wait for the first tile of the first loop: all others are waited for in the round before."""
        if not self.counter:
            self._await_next_tile(context, loop.start)
        self.counter, self.is_awaited = loop.variable, True

    def _await_next_tile(self, context: EmitContext, number: Expr) -> None:
        """Wait for the first tile of the round of so high a counter, if there is such a round.

        That is soon done, and ptxas moves nothing across it: what is to run beside a product it would move beyond the
        wait for that product. The next round begins with a product at once.
        """
        ring, printer = self._first, TilePrinter.of(context, (), ir.TileType(int32), self.form.last.bindings)
        has_next = syntax.binary("<", printer.scalar(number), printer.scalar(self.form.last.stop))
        context.run(syntax.call("mbarrier.wait", at(ring.ready, ring.slot()), ring.parity(), pred=has_next))

    @property
    def _first(self) -> Ring:
        """The ring from which a round takes its first tile."""
        return next(iter(self.form.rings.values()))


def _turned(node: ast.expr, dims: tuple[int, ...]) -> ast.expr:
    return node if dims == tuple(range(len(dims))) else syntax.method(node, "permute", dims)


def _is_read_elsewhere(context: EmitContext, tile: ir.Value) -> bool:
    """Tell whether a tile is read in other blocks than its own: what these begin with must have a layout."""
    own = context.analysis.block_of(tile)
    return bool(tile.type.lanes) and any(use.block != own for use in context.analysis.uses.get(tile, ()))


def _is_added(context: EmitContext, dot: ir.Apply) -> bool:
    """Tell whether a product is read by a sum alone, with which it is computed."""
    uses = context.analysis.uses.get(dot.result, ())
    return [getattr(use.operation, "function", None) for use in uses] == ["add"]


def _dot_of(context: EmitContext):
    """Return a function that gives the product that a value is, if it is one that is computed with a sum."""

    def found(value: ir.Value) -> ir.Apply | None:
        producer = context.analysis.producers.get(value)
        return producer if is_dot(producer) and _is_added(context, producer) else None

    return found

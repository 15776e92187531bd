"""Recognise products: which loads feed which side of a `dot`, in which loops, and what products are added to.

for k in range(n):                               `a[k]` feeds the left side: its axes 0 and 1 are rows and depth
    total = total + dot(a[k], trans(b[k]))       `b[k]` the right one: its axes 1 and 0 are depth and columns
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ninetoothed import ir
from ninetoothed.ir.traversal import bottom_up
from ninetoothed.passes.operations import is_dot, producers


@dataclass(frozen=True)
class Feed:
    """A load, or another product, of which a value is made lane by lane.

    axes: for each axis of the value, those of the load or product that lie along it. path: the operations in between.
    """

    operation: ir.Load | ir.Apply
    axes: tuple[frozenset[int], ...]
    path: tuple[ir.Apply, ...] = ()

    @property
    def load(self) -> ir.Load | None:
        """The load, if it is one."""
        return self.operation if isinstance(self.operation, ir.Load) else None

    @property
    def access(self) -> ir.Access:
        """The access of the load."""
        assert isinstance(self.operation, ir.Load)
        return self.operation.access

    @property
    def is_turned(self) -> bool:
        """Tell whether the value is a tile as it is in memory, its axes perhaps in another order."""
        return self.load is not None and all(step.function == "permute" for step in self.path)

    @property
    def is_in_memory(self) -> bool:
        """Tell whether the value is a tile as it is in memory, turned, or its rows counted otherwise."""
        return self.load is not None and all(step.function == "permute" or _keeps_rows(step) for step in self.path)


def _keeps_rows(step: ir.Apply) -> bool:
    """Tell whether rows stay as long as they are, of which shared memory may be read as any number."""
    return step.function == "reshape" and step.result.type.lanes[-1:] == step.operands[0].type.lanes[-1:]


class Feeds:
    """Find what feeds the values of a block."""

    def __init__(self, block: ir.Block):
        self._defined_by = producers(block)
        self._known: dict[ir.Value, tuple[Feed, ...]] = {}

    def of(self, value: ir.Value) -> tuple[Feed, ...]:
        """Return the loads and products of which a tile is made."""
        found: tuple[Feed, ...] = bottom_up(value, self._known, self._inputs, self._rule)
        return found

    def turned(self, value: ir.Value) -> ir.Load | None:
        """Return the load of a tile that is used as it is in memory, perhaps turned; None for any other."""
        return next((feed.load for feed in self.of(value) if feed.is_turned), None)

    def _inputs(self, value: ir.Value) -> tuple[ir.Value, ...]:
        operation = self._defined_by.get(value)
        if not isinstance(operation, ir.Apply) or is_dot(operation):
            return ()
        if operation.function == "assign":
            return operation.operands[1:]
        primitive = operation.primitive
        return operation.operands if primitive.moves_lanes or primitive.is_elementwise else ()

    def _rule(self, value: ir.Value) -> tuple[Feed, ...]:
        operation, found = self._defined_by.get(value), dict[ir.Operation, Feed]()
        if not value.type.lanes:
            return ()
        if isinstance(operation, ir.Load) or is_dot(operation):
            return (Feed(operation, tuple(frozenset((axis,)) for axis in range(len(value.type.lanes)))),)
        for feed in (feed for each in self._inputs(value) for feed in self._known[each]):
            assert isinstance(operation, ir.Apply)
            axes = _moved(operation, feed.axes) if operation.primitive.moves_lanes else feed.axes
            earlier = found.get(feed.operation)
            path = dict.fromkeys((*(earlier.path[:-1] if earlier else ()), *feed.path, operation))
            found[feed.operation] = Feed(feed.operation, axes, tuple(path))
        return tuple(found.values())


def _moved(operation: ir.Apply, axes: tuple[frozenset[int], ...]) -> tuple[frozenset[int], ...]:
    """Return what lies along the axes of a tile whose lanes were moved; any that changed may lie along a new one."""
    (names,), (places,) = operation.axes.operands, operation.axes.results
    own = dict(zip(names, axes, strict=True))
    changed = frozenset[int]().union(*(each for name, each in own.items() if name.startswith("[")))
    return tuple(own.get(name, changed if name.startswith("[") else frozenset()) for name in places)


@dataclass(frozen=True)
class Product:
    """A product, the loops that it is in, the outermost first, and what feeds its left and its right side."""

    dot: ir.Apply
    loops: tuple[ir.Loop, ...]
    sides: tuple[tuple[Feed, ...], tuple[Feed, ...]]

    def takes(self, other: Product) -> bool:
        """Tell whether a side is made of another product."""
        return any(feed.operation is other.dot for side in self.sides for feed in side)


def products(program: ir.Program) -> tuple[Product, ...]:
    """Return the products of a program, in its order."""
    feeds = Feeds(program.body)
    dots = _dots(program.body, ())
    return tuple(Product(dot, loops, (feeds.of(dot.operands[0]), feeds.of(dot.operands[1]))) for dot, loops in dots)


def _dots(block: ir.Block, loops: tuple[ir.Loop, ...]) -> Iterator[tuple[ir.Apply, tuple[ir.Loop, ...]]]:
    for operation in block:
        if is_dot(operation):
            yield operation, loops
        for nested in ir.blocks(operation):
            yield from _dots(nested, (*loops, operation) if isinstance(operation, ir.Loop) else loops)


@dataclass(frozen=True)
class SummedProduct:
    """A loop-carried variable to which each round adds a product, and which nothing else reads.

    add: the operation that adds the product `dot`: the product itself where that takes an accumulator.
    """

    sum: ir.Carried
    add: ir.Apply
    dot: ir.Apply


def summed_products(loop: ir.For, defined_by: Mapping[ir.Value, ir.Operation]) -> list[SummedProduct]:
    """Match the variables of a loop that are sums of products. defined_by: the operations that define values."""
    read = [value for operation in ir.walk(loop.body) for value in ir.operands(operation)] + [*loop.yields]
    found = []
    for each in loop.carried:
        add = defined_by.get(each.yielded)
        dot = _added(add, each.argument, defined_by)
        if isinstance(add, ir.Apply) and dot is not None and add in loop.body and dot in loop.body:
            if all(read.count(value) == 1 for value in (each.argument, each.yielded, dot.result)):
                found.append(SummedProduct(each, add, dot))
    return found


def _added(add: ir.Operation | None, total: ir.Value, defined_by: Mapping[ir.Value, ir.Operation]) -> ir.Apply | None:
    """Return the product that an operation adds to a total, and nothing else with it; None for any other."""
    match add:
        case ir.Apply(operands=(_, _, accumulator)) if is_dot(add):
            return add if accumulator is total else None
        case ir.Apply(function="add", operands=(left, right)) if (left is total) != (right is total):
            product = defined_by.get(right if left is total else left)
            return product if is_dot(product) and len(product.operands) == 2 else None
    return None

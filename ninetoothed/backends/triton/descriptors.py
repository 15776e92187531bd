"""Loads and stores through tensor descriptors, as text; `passes.tma_tiles` finds those that can be."""

from __future__ import annotations

import ast

from ninetoothed import ir
from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.context import EmitContext, ValueText
from ninetoothed.backends.triton.tiles import TilePrinter
from ninetoothed.dtypes import int32
from ninetoothed.passes.tma_tiles import TmaTile


def load(context: EmitContext, operation: ir.Load, tile: TmaTile) -> ValueText:
    """Print `desc.load([...])`, with the axes of the tile."""
    lanes = operation.access.type.lanes
    node = syntax.method(descriptor(context, tile), "load", offsets(context, operation.access, tile))
    counts = tuple(count for count, axis in zip(tile.block, tile.axes, strict=True) if axis is not None)
    order = [axis for axis in tile.axes if axis is not None]
    if counts != tile.block:
        node = syntax.call("tl.reshape", node, counts)
    if order != sorted(order):
        node = _permuted(node, tuple(order.index(axis) for axis in sorted(order)))
    if tuple(count for count in lanes if count > 1) != lanes:
        node = syntax.call("tl.reshape", node, lanes)
    return ValueText(node, lanes)


def store(context: EmitContext, operation: ir.Store, tile: TmaTile, value: ast.expr) -> None:
    """Print `desc.store([...], value)`, with the dimensions of the descriptor."""
    lanes = operation.access.type.lanes
    order = tuple(axis for axis in tile.axes if axis is not None)
    if tuple(count for count in lanes if count > 1) != lanes:
        value = syntax.call("tl.reshape", value, tuple(lanes[axis] for axis in sorted(order)))
    if list(order) != sorted(order):
        value = _permuted(value, tuple(sorted(order).index(axis) for axis in order))
    if tuple(lanes[axis] for axis in order) != tile.block:
        value = syntax.call("tl.reshape", value, tile.block)
    place = offsets(context, operation.access, tile)
    context.run(syntax.method(descriptor(context, tile), "store", place, value))


def _permuted(node: ast.expr, order: tuple[int, ...]) -> ast.expr:
    return syntax.call("tl.trans", node) if order == (1, 0) else syntax.call("tl.permute", node, order)


def offsets(context: EmitContext, access: ir.Access, tile: TmaTile) -> ast.expr:
    """List where a tile begins, a number for each dimension of its descriptor."""
    printer = TilePrinter.of(context, (), ir.TileType(int32), access.bindings).assuming(access.guards)
    nodes = [printer.scalar(offset) for offset in tile.offsets]
    are_long = any(value.type.dtype.bits == 64 for _, value in access.bindings)
    if are_long or any(parameter.wide for parameter in context.program.parameters):
        # Sizes may be of 64 bits then, and so what is computed of them; the copy engine counts in 32.
        nodes = [
            node if offset.is_constant else syntax.call("tl.cast", node, syntax.name("tl.int32"))
            for node, offset in zip(nodes, tile.offsets, strict=True)
        ]
    return ast.List(nodes)


def descriptor(context: EmitContext, tile: TmaTile) -> ast.expr:
    """Name the kernel argument for a tile; tiles that differ in their offsets alone have one."""
    key = (tile.parameter, tile.block, tile.strides)
    if key not in context.descriptors:
        context.descriptors[key] = (context.names.fresh(f"{tile.parameter}_desc"), tile)
    return syntax.name(context.descriptors[key][0])

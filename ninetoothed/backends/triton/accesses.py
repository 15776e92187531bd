"""Loads and stores: pointers, masks, and the barriers between accesses to the same memory."""

from __future__ import annotations

import ast
from dataclasses import replace

from ninetoothed import ir
from ninetoothed.arrangement.guards import Guard, unimplied
from ninetoothed.backends.triton import barriers, descriptors, syntax
from ninetoothed.backends.triton.analysis import guard_key
from ninetoothed.backends.triton.context import EmitContext, ValueText
from ninetoothed.backends.triton.functions.values import exact, materialise, union
from ninetoothed.backends.triton.integers import terms
from ninetoothed.backends.triton.tiles import Summand, TilePrinter
from ninetoothed.expr import Expr, const


def load(context: EmitContext, operation: ir.Load) -> ValueText:
    access = operation.access
    if operation in context.tma_tiles:
        return descriptors.load(context, operation, context.tma_tiles[operation])
    barriers.before_read(context, access.parameter, access)
    pointer, mask = _place(context, access, ())
    other = None
    if mask is not None and not _is_unobserved(context, operation):
        other = _other(access)
    node = syntax.call("tl.load", pointer.node, mask=mask.node if mask else None, other=other)
    return ValueText(node, pointer.shape)


def store(context: EmitContext, operation: ir.Store) -> None:
    access = operation.access
    value = context.texts[operation.value]
    if operation in context.tma_tiles:
        node = materialise(value, access.type)
        return descriptors.store(context, operation, context.tma_tiles[operation], node)
    barriers.before_write(context, access.parameter, access)
    pointer, mask = _place(context, access, value.shape)
    context.run(
        syntax.call(
            "tl.store", pointer.node, exact(value, operation.value.type.dtype), mask=mask.node if mask else None
        )
    )


def filled(context: EmitContext, operation: ir.Load, tile: ast.expr) -> ast.expr:
    """Print a tile with `other` out of bounds, where it has zeros."""
    access = operation.access
    if access.other == 0 or _is_unobserved(context, operation):
        return tile
    parameter = context.program.parameter(access.parameter)
    mask = _mask(context, access, TilePrinter.of(context, access.lanes, access.type, access.bindings, parameter.wide))
    return tile if mask is None else syntax.call("tl.where", mask.node, tile, _other(access))


def _other(access: ir.Access) -> ast.expr:
    number = _as_number(access.other, access.type.dtype)
    return exact(ValueText(syntax.number(number), (), number), access.type.dtype)


def _as_number(other, dtype) -> int | float:
    return float(other) if dtype.is_floating else int(other)


def _place(context: EmitContext, access: ir.Access, value_shape: tuple[int, ...]) -> tuple[ValueText, ValueText | None]:
    """Return the pointers, broadcast as far as mask and `value_shape` need, and the mask."""
    parameter = context.program.parameter(access.parameter)
    printer = TilePrinter.of(context, access.lanes, access.type, access.bindings, parameter.wide)
    mask = _mask(context, access, printer)
    pointer = _pointer(context, access, printer.assuming(access.guards), parameter)
    shape = union(pointer.shape, mask.shape if mask else (), value_shape)
    return broadcast(pointer, shape), mask


def broadcast(text: ValueText, shape: tuple[int, ...]) -> ValueText:
    """Broadcast a text to exactly this shape."""
    if text.shape == shape:
        return text
    return ValueText(syntax.call("tl.broadcast_to", text.node, shape), shape)


# -- pointers --


def _pointer(context: EmitContext, access: ir.Access, printer: TilePrinter, parameter: ir.Parameter) -> ValueText:
    """Return `base + offsets`. What a loop moves is added to the base: offsets are computed once, before it."""
    base = context.argument(access.parameter)
    dimensions = [
        (d, printer.settle(index), stride)
        for d, (index, stride) in enumerate(zip(access.indices, parameter.strides, strict=True))
        if stride != 0
    ]
    counters = _counters(context, [index for _, index, _ in dimensions])
    moved = _moved(printer, dimensions, counters)
    if moved is not None:
        by, dimensions = moved
        base = syntax.chain("+", [base, *by])
    offsets = _offsets(printer, dimensions, parameter)
    if offsets.constant == 0:
        return ValueText(base)
    if moved is not None and not isinstance(offsets.node, ast.Name):
        depth = context.depth_of(*(index for _, index, _ in dimensions))
        offsets = replace(offsets, node=context.common(f"{parameter.name}_offsets", offsets.node, depth))
    return ValueText(_append(base, offsets.node), offsets.shape)


def _append(base: ast.expr, offsets: ast.expr) -> ast.expr:
    """Print `base + (a + b)` without its parentheses."""
    if isinstance(offsets, ast.BinOp) and isinstance(offsets.op, ast.Add | ast.Sub):
        return ast.BinOp(_append(base, offsets.left), offsets.op, offsets.right)
    return syntax.binary("+", base, offsets)


def _counters(context: EmitContext, indices: list[Expr]) -> frozenset[str]:
    """Collect the loop counters on which indices depend."""
    names = frozenset().union(*(index.variables for index in indices)) - frozenset(context.program.axes)
    return frozenset(name for name in names if context.depth_of_name(name) > 0)


def _moved(printer: TilePrinter, dimensions, counters: frozenset[str]):
    """Split off the scalar offsets by which loops move a tile; None where loops do more than move it."""
    if not counters or any(index.variables & printer.bindings.keys() for _, index, _ in dimensions):
        return None
    # Scattered elements have an offset each; recomputing these in the loop saves a register for each.
    is_run = any(stride == 1 and index.variables & printer.lane_names for _, index, stride in dimensions)
    by, rest = [], []
    for d, index, stride in dimensions:
        steps = sum((term for term in terms(index) if term.variables & counters), const(0))
        if steps.variables & printer.lane_names or not (is_run or index.linear(counters)):
            return None
        if steps != 0:
            by.append(_times(printer, printer.scalar(steps), stride))
        rest.append((d, index - steps, stride))
    if all(not index.variables & printer.lane_names for _, index, _ in rest):
        return None  # a scalar access: nothing to prepare
    return by, rest


def _offsets(printer: TilePrinter, dimensions, parameter: ir.Parameter) -> ValueText:
    """Return the sum of index * stride, computed for each set of axes by itself, so that divisions are on vectors."""
    by_axes: dict[frozenset[int], list[tuple[Summand, Expr]]] = {}
    for d, index, stride in dimensions:
        wanted = f"{parameter.name}_index" + (f"_{d}" if len(parameter.strides) > 1 else "")
        for part in printer.parts(index, wanted):
            by_axes.setdefault(part.axes, []).append((part, stride))
    parts = []
    for axes, strided in by_axes.items():
        if len(strided) == 1 or strided[0][0].lifted:
            # `index[:, None] * stride`
            parts += [
                Summand(_times(printer, printer.lift(part), stride), axes, lifted=True) for part, stride in strided
            ]
        else:
            # `(index_0 * stride_0 + index_1 * stride_1)[:, None]`
            parts.append(
                Summand(syntax.chain("+", [_times(printer, part.node, stride) for part, stride in strided]), axes)
            )
    return printer.tile(parts)


def _times(printer: TilePrinter, node: ast.expr, stride: Expr) -> ast.expr:
    return node if stride == 1 else syntax.binary("*", node, printer.scalar(stride))


# -- masks --


def _mask(context: EmitContext, access: ir.Access, printer: TilePrinter) -> ValueText | None:
    """Return the conjunction of the guards; one that several accesses share gets a name."""
    guards = unimplied(access.guards, printer.facts)
    if not guards:
        return None
    texts = []
    # What a loop changes comes last, so that the rest is computed once.
    for position, guard in sorted(enumerate(guards), key=lambda item: bool(_counters(context, [item[1].index]))):
        texts += _conditions(context, access, printer.assuming(guards[:position]), guard)
    node = syntax.chain("&", [text.node for text in texts])
    shape = union(*(text.shape for text in texts))
    key = guard_key(access)
    if key is not None and context.analysis.guard_counts[key] > 1:
        depth = context.depth_of(*(e for guard in access.guards for e in guard.parts))
        node = context.common("mask", node, depth)
    return ValueText(node, shape)


def _conditions(context: EmitContext, access: ir.Access, printer: TilePrinter, guard: Guard) -> list[ValueText]:
    conditions = []
    wanted = _wanted(access, guard)
    if guard.lower:
        text = printer.text(guard.index, wanted)
        conditions.append(ValueText(syntax.binary(">=", text.node, syntax.number(0)), text.shape))
    if guard.upper:
        index, size = _without_counters(context, printer, guard.index, guard.size)
        text = printer.text(index, wanted)
        conditions.append(ValueText(syntax.binary("<", text.node, printer.scalar(size)), text.shape))
    return conditions


def _without_counters(context: EmitContext, printer: TilePrinter, index: Expr, size: Expr) -> tuple[Expr, Expr]:
    """Move counters to the size: `k * 64 + lane < size` -> `lane < size - k * 64`, so that a loop moves no tile."""
    counters = _counters(context, [index])
    linear = index.linear(counters) if counters else None
    if linear is None or index.variables & printer.bindings.keys():
        return index, size
    coefficients, rest = linear
    if any(e.variables & printer.lane_names for e in coefficients.values()) or not rest.variables & printer.lane_names:
        return index, size
    return rest, size - (index - rest)


def _wanted(access: ir.Access, guard: Guard) -> str:
    """Name a guarded index after its dimension."""
    if len(access.indices) > 1 and guard.index in access.indices:
        return f"{access.parameter}_index_{access.indices.index(guard.index)}"
    return f"{access.parameter}_index"


def _is_unobserved(context: EmitContext, operation: ir.Load) -> bool:
    """Tell whether everything computed from a load, lane by lane, is stored under guards at least as strict."""
    key = guard_key(operation.access)
    if key is None:
        return False
    pending, seen = [operation.result], set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in context.analysis.uses.get(value, ()):
            match use.operation:
                case ir.Store(access=access, value=stored) if stored is value:
                    stored_key = guard_key(access)
                    if stored_key is None or stored_key[0] != key[0] or not set(key[1]) <= set(stored_key[1]):
                        return False
                case ir.Apply() as reader if reader.primitive.is_map:
                    pending += reader.results
                case _:
                    return False
    return True

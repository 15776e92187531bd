"""Number programs along the axes of the outermost level; a GPU counts them along up to three.

    pid_0 = pid // (heads * blocks)                   pid_0 = tl.program_id(2)
    pid_1 = pid // blocks % heads               ->    pid_1 = tl.program_id(1)
    pid_2 = pid % blocks                              pid_2 = tl.program_id(0)

The left is used where programs are grouped for L2, take several tiles each, or are too many along an outer axis.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Sequence
from typing import Any

from ninetoothed import ir
from ninetoothed.backends.triton import syntax
from ninetoothed.backends.triton.context import EmitContext, TextBlock
from ninetoothed.backends.triton.remainder import locate
from ninetoothed.backends.triton.tiles import scalar
from ninetoothed.expr import Expr
from ninetoothed.passes import heaviest_first
from ninetoothed.passes.operations import is_dot
from ninetoothed.passes.remainder import PART, PARTS, SLOT, Remainder


def decompose(context: EmitContext, may_spread: bool, remainder: Remainder | None = None) -> bool:
    """Define the program indices that the body mentions; return whether the GPU's own axes count them.

    remainder: the tiles that are shared out, if they alone are.
    """
    program = context.program
    axes = [(axis, extent) for axis, extent in zip(program.axes, program.grid, strict=True) if extent != 1]
    if remainder is not None:
        axes = [(axis, extent) for axis, extent in axes if axis not in (PART, PARTS, SLOT)]
    for axis, extent in zip(program.axes, program.grid, strict=True):
        if extent == 1:
            context.zeros[axis] = 0
    used = set().union(*map(ir.integers, ir.walk(program.body))) & {axis for axis, _ in axes}
    if not used:
        return False
    is_grouped = len(axes) > 1 and context.schedule.group_rows > 1 and _wants_groups(program, axes)
    if len(axes) > 1 and may_spread and context.schedule.multi_axis_grid and not is_grouped:
        _spread(context, axes, used)
        return True
    pid = syntax.name("pid")
    if not context.depth:
        context.append(syntax.assign("pid", syntax.call("tl.program_id", 0)))
    if remainder is not None:
        pid = locate(context, remainder, pid, _tiles(context, axes))
    if len(axes) == 1:
        context.variables[axes[0][0]] = (pid, context.depth)
    elif is_grouped:
        *outer, rows, columns = axes
        pid = _grouped(context, pid, outer, rows, columns)
        _row_major(context, pid, outer, used)
    else:
        _row_major(context, pid, axes, used)
    return False


def launched(grid: Sequence[int], spread: bool) -> tuple[int, int, int]:
    """Return the number of programs along each axis of the GPU, the fastest varying first; see `_spread`."""
    if not spread:
        return math.prod(grid), 1, 1
    *outer, rows, columns = grid
    return columns, rows, math.prod(outer)


def _spread(context: EmitContext, axes, used: set[str]) -> None:
    """Map axes of the grid to the GPU's: the last is the first, the one before it the second, all others the third."""
    *outer, rows, columns = [axis for axis, _ in axes]
    nodes = {axis: syntax.call("tl.program_id", number) for number, axis in enumerate((columns, rows, *outer[:1]))}
    if heaviest_first.grows_with(context.program, columns):
        last = syntax.binary("-", syntax.call("tl.num_programs", 0), syntax.number(1))
        nodes[columns] = syntax.binary("-", last, nodes[columns])
    if len(outer) > 1 and not used.isdisjoint(outer):
        _row_major(context, context.assign("outer", nodes.pop(outer[0])), axes[:-2], used)
    for axis, node in reversed(nodes.items()):
        if axis in used:
            context.variables[axis] = (context.assign(_short(axis), node), context.depth)


def count(context: EmitContext) -> ast.expr:
    """Return the number of tiles, computed before the loop over them."""
    program = context.program
    return _tiles(context, [each for each in zip(program.axes, program.grid, strict=True) if each[1] != 1])


def _tiles(context: EmitContext, axes) -> ast.expr:
    """Count the tiles. The last two axes are the rows and columns of groups, if there are groups; see `_grouped`."""
    names = ["columns", "rows", *itertools.repeat("extent", len(axes))]
    named = list(zip(names, reversed(axes)))
    return _product(*(_extent(context, extent, name) for name, (_, extent) in reversed(named)))


def _row_major(context: EmitContext, pid: ast.expr, axes, used: set[str]) -> None:
    """Define `pid // inner % extent` for the axes in use; the first needs no remainder.

    Along the last axis programs with more work come first, so that none of them starts last:

        pid_2 = pid % extent   ->   pid_2 = extent - 1 - pid % extent
    """
    inner: list[ast.expr] = []
    nodes: list[tuple[str, ast.expr]] = []
    for position in reversed(range(len(axes))):
        axis, extent = axes[position]
        node = pid
        if inner:
            node = syntax.binary("//", node, _product(*inner))
        if axis in used:
            node = syntax.binary("%", node, _extent(context, extent)) if position else node
            if position == len(axes) - 1 and heaviest_first.grows_with(context.program, axis):
                last = syntax.binary("-", _extent(context, extent), syntax.number(1))
                node = syntax.binary("-", last, node)
            nodes.append((axis, node))
        needed = used & {axis for axis, _ in axes[:position]}
        if needed:
            inner = [_extent(context, extent), *inner]
    for axis, node in reversed(nodes):
        context.variables[axis] = (context.assign(_short(axis), node), context.depth)


def _grouped(context: EmitContext, pid: ast.expr, outer, rows, columns) -> ast.expr:
    """Walk down groups of rows, column by column: programs that run together share their operands in L2.

    pid_0 = pid // columns                          pid_0 = first_row + pid % group_size % group_rows
    pid_1 = pid % columns                       ->  pid_1 = pid % group_size // group_rows
    """
    count = context.schedule.group_rows
    height = _extent(context, rows[1], "rows")
    width = _extent(context, columns[1], "columns")
    rest = pid
    if outer:
        rest = context.assign("tile", syntax.binary("%", pid, _product(height, width)))
    whole = context.common("group_size", _product(syntax.number(count), width), 0)
    first = context.assign("first_row", syntax.binary("*", syntax.binary("//", rest, whole), syntax.number(count)))
    here = context.assign("group_rows", syntax.call("tl.minimum", syntax.binary("-", height, first), count))
    within = syntax.binary("%", rest, whole)
    row = context.assign(_short(rows[0]), syntax.binary("+", first, syntax.binary("%", within, here)))
    column = context.assign(_short(columns[0]), syntax.binary("//", within, here))
    context.variables[rows[0]] = (row, context.depth)
    context.variables[columns[0]] = (column, context.depth)
    if not outer:
        return pid
    return syntax.binary("//", pid, _product(height, width))


def _extent(context: EmitContext, extent: Expr, wanted: str = "extent") -> ast.expr:
    node = scalar(context, extent)
    return node if isinstance(node, ast.Name | ast.Constant) else context.common(wanted, node, 0)


def _product(*factors: ast.expr) -> ast.expr:
    numbers: list[Any] = [factor.value for factor in factors if isinstance(factor, ast.Constant)]
    rest = [factor for factor in factors if not isinstance(factor, ast.Constant)]
    return syntax.chain("*", [syntax.number(math.prod(numbers)), *rest] if numbers else rest)


def _short(axis: str) -> str:
    return axis.replace("program_", "pid_")


def _wants_groups(program: ir.Program, axes) -> bool:
    """Tell whether a loop multiplies a tile that depends on the next to last axis alone by one of the last alone."""
    rows, columns = axes[-2][0], axes[-1][0]
    for operation in ir.walk(program.body):
        if isinstance(operation, ir.For) and any(map(is_dot, ir.walk(operation.body))):
            depends = [_axes_of(inner.access) for inner in ir.walk(operation.body) if isinstance(inner, ir.Load)]
            by_rows = any(rows in names and columns not in names for names in depends)
            by_columns = any(columns in names and rows not in names for names in depends)
            if by_rows and by_columns:
                return True
    return False


def _axes_of(access: ir.Access) -> frozenset[str]:
    return frozenset().union(*(index.variables for index in access.indices))


# -- a loop over tiles, in a persistent kernel --


def enter_tile_loop(context: EmitContext) -> None:
    """Start the block that computes one tile."""
    context.scopes.append(TextBlock(repeats=True))


def leave_tile_loop(context: EmitContext, tiles: ast.expr) -> None:
    """End that block and put the loop over tiles around it."""
    body = context.leave()
    bounds = (syntax.call("tl.program_id", 0), tiles, syntax.call("tl.num_programs", 0))
    iterator = syntax.call("tl.range", *bounds, flatten=True)
    context.append(ast.For(syntax.name("pid"), iterator, body, [], lineno=0))

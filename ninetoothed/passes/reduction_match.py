"""Match loops that are sums, or whose parts a function of the user's merges: their rounds can be shared out.

total = zeros(...)                               peak, total = ...
for k in range(n): total = total + f(k)          for k in ntl.range(n, merge=function): peak, total = f(k, peak, total)
store(c, g(total))                               store(c, g(peak, total))
"""

from __future__ import annotations

import math

from ninetoothed import ir
from ninetoothed.dtypes import PointerType, float32
from ninetoothed.expr import const
from ninetoothed.passes.operations import producers

# Tiles of fewer elements are not worth it.
FEWEST_ELEMENTS = 256


def match(program: ir.Program) -> ir.For | None:
    """Match a program whose only loop can be done in parts, and return that loop; what follows it may store."""
    loops = [operation for operation in program.body if ir.blocks(operation)]
    loop = loops[0] if len(loops) == 1 else None
    if not isinstance(loop, ir.For):
        return None
    before, after = around(program, loop)
    is_plain = all(map(_is_pure, (*before, *loop.body))) and all(
        isinstance(operation, ir.Store) or _is_pure(operation) for operation in after
    )
    loads = {operation.access.parameter for operation in ir.walk(program.body) if isinstance(operation, ir.Load)}
    stores = {operation.access.parameter for operation in after if isinstance(operation, ir.Store)}
    is_split = loop.merge is not None and _is_counted(loop) or _is_sum(loop, before)
    return loop if is_plain and not loads & stores and is_split else None


def around(program: ir.Program, loop: ir.For) -> tuple[ir.Block, ir.Block]:
    """Return the operations of a program before a loop of its body, and those after it."""
    position = program.body.index(loop)
    return program.body[:position], program.body[position + 1 :]


def _is_counted(loop: ir.For) -> bool:
    return loop.start == const(0) and loop.step == const(1)


def _is_pure(operation: ir.Operation) -> bool:
    match operation:
        case ir.Apply(results=results, operands=operands):
            types = (value.type.dtype for value in (*results, *operands))
            return bool(results) and not any(isinstance(dtype, PointerType) for dtype in types)
        case ir.Constant() | ir.ScalarArgument() | ir.Index() | ir.Load():
            return True
    return False


def _is_sum(loop: ir.For, before: ir.Block) -> bool:
    if len(loop.carried) != 1 or not _is_counted(loop) or loop.bindings:
        return False
    defined_by = producers((*before, *loop.body))
    (each,) = loop.carried
    carried, zeros, total = each.argument, defined_by.get(each.initial), defined_by.get(each.yielded)
    match zeros, total:
        case ir.Apply(function="full", operands=(number,)), ir.Apply(function="add", operands=operands):
            zero = defined_by.get(number)
            reads = sum(value is carried for operation in loop.body for value in ir.operands(operation))
            is_zero = isinstance(zero, ir.Constant) and zero.value == 0
            return is_zero and reads == 1 and carried in operands and _is_large(carried.type)
    return False


def _is_large(type: ir.TileType) -> bool:
    return type.dtype == float32 and math.prod(type.lanes) >= FEWEST_ELEMENTS

"""Pass: a product of few rows is computed as its transpose, so that the long side fills the matrix instruction.

    total = zeros(16, 64)
    for k in range(steps):
        total = dot(a[k], b[k]) + total
->  turned = zeros(64, 16)
    for k in range(steps):
        turned = dot(trans(b[k]), trans(a[k])) + turned
    total = trans(turned)

So is each of several products that one loop sums up, if it does nothing else.

An instruction of Hopper's (wgmma) has 64 rows and any multiple of 8 columns, and reads both operands from shared
memory. A tile of 16 rows has none: its operands go through registers, and fewer loads are in flight. Memory is what
such a product waits for: on an H200, with 1 to 16 rows and the weights of Llama models, it takes .95 of cuBLAS's time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.passes.operations import producers, replaced
from ninetoothed.passes.products import SummedProduct, summed_products

# The rows of the instruction, and the most rows of a tile that are turned into columns.
INSTRUCTION_ROWS = 64
MOST_ROWS = 32


def swap(program: ir.Program) -> ir.Program:
    """Return the program with each loop that sums up such a product turned."""
    return replace(program, body=_Swapper(defined_by=producers(program.body)).block(program.body))


@dataclass(kw_only=True)
class _Swapper(ir.Rewriter):
    """Turns loops that sum up products of few rows. defined_by: the operations that define values."""

    defined_by: Mapping[ir.Value, ir.Operation]

    def operation(self, operation: ir.Operation) -> ir.Block:
        if isinstance(operation, ir.For) and (sums := _match(operation, self.defined_by)):
            return _turned(operation, sums, self.defined_by)
        return (self.rebuilt(operation),)


def _match(loop: ir.For, defined_by: Mapping[ir.Value, ir.Operation]) -> tuple[SummedProduct, ...]:
    """Match a loop that does nothing but sum up products of few rows and many columns; () for any other."""
    if loop.merge is not None:
        return ()  # It takes variables of the shapes that they have.
    sums = [each for each in summed_products(loop, defined_by) if _is_flat(each)]
    return tuple(sums) if len(sums) == len(loop.arguments) else ()


def _is_flat(each: SummedProduct) -> bool:
    """Tell whether a product has few rows and many columns, and tensor cores multiply it."""
    lanes, lhs = each.sum.argument.type.lanes, each.dot.operands[0]
    is_flat = len(lanes) == 2 and lanes[0] <= MOST_ROWS and lanes[1] >= INSTRUCTION_ROWS
    return is_flat and each.add is not each.dot and lhs.type.dtype.bits <= 16


def _turned(loop: ir.For, sums: tuple[SummedProduct, ...], defined_by: Mapping[ir.Value, ir.Operation]) -> ir.Block:
    """Return a loop that sums the transposed products, with what turns them before and after it."""
    before: list[ir.Apply] = []
    after: list[ir.Apply] = []
    carried: list[ir.Carried] = []
    new: dict[ir.Operation, ir.Block] = {}
    for each in sums:
        before.append(_start(each.sum.initial, defined_by))
        lhs, rhs = map(_transpose, each.dot.operands)
        values = (each.dot.result, each.sum.argument, each.add.result, each.sum.result)
        product, argument, end, final = map(_transposed, values)
        new[each.dot] = (rhs, lhs, replace(each.dot, results=(product,), operands=(rhs.result, lhs.result)))
        new[each.add] = (replace(each.add, results=(end,), operands=(product, argument)),)
        carried.append(ir.Carried(before[-1].result, argument, end, final))
        after.append(ir.Apply((each.sum.result,), "permute", (final,), (("dims", (1, 0)),)))
    return (*before, replace(loop, carried=tuple(carried), body=replaced(loop.body, new)), *after)


def _start(initial: ir.Value, defined_by: Mapping[ir.Value, ir.Operation]) -> ir.Apply:
    """Make the transpose of the value that a sum starts from."""
    match defined_by.get(initial):
        case ir.Apply(function="full") as full:
            return replace(full, results=(_transposed(initial),))
    return _transpose(initial)


def _transpose(value: ir.Value) -> ir.Apply:
    return ir.Apply((_transposed(value),), "permute", (value,), (("dims", (1, 0)),))


def _transposed(value: ir.Value) -> ir.Value:
    """Return a new value of the transpose's type."""
    type = replace(value.type, shape=value.type.shape[::-1], lanes=value.type.lanes[::-1])
    return ir.Value(type, value.hint)

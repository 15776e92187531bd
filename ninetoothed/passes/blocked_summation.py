"""Pass: sum up products of whole float32 numbers in blocks, so that errors hardly grow with the length of the sum.

    for k in range(steps):
        total = dot(a[k], b[k]) + total
->  for k in range(steps):
        part = dot(a[k], b[k]) + part
        if k % rounds == rounds - 1:
            total, part = total + part, zeros
    total = total + part
->  for k in range(steps):                         where a block is one round
        total = fma(dot(a[k], b[k]), 1, total)

No tensor core multiplies such numbers: each product is rounded to the last place of the sum of all before it. Of n
numbers of either sign the error grows as the square root of n; of blocks of sqrt(n), added up in turn, as the fourth.
The second form is an addition that Triton does not take for the accumulator of `dot`.

On an H200, a product of 4096^3 takes 3 to 6 % more time; of it, 1.7 units in the last place are lost, and were 9.6.
A part takes as many registers as a total. Where both do not fit, or a loop has other products, it stays as is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ninetoothed import ir
from ninetoothed.dtypes import float32
from ninetoothed.expr import Expr, Facts, const, simplify, var
from ninetoothed.passes.operations import compared, is_dot, producers, replaced
from ninetoothed.passes.products import SummedProduct, summed_products
from ninetoothed.passes.trip_count import has_at_most

# The most registers of a thread for totals: parts take as many again, and operands most of what is left.
MOST_REGISTERS = 64
# A block has a round, and one more for each so many rounds of the loop. With rounds of 16 to 64 terms, it has about as
# many terms as the root of a few thousand.
ROUNDS_PER_BLOCK = 96


def sum_in_blocks(program: ir.Program, threads: int) -> ir.Program:
    """Sum up exact products in blocks, in programs of so many threads, where registers are left."""
    summer = _Summer(facts=program.facts, threads=threads, producers=producers(program.body))
    return replace(program, body=summer.block(program.body))


@dataclass(kw_only=True)
class _Summer(ir.Rewriter):
    """Rewrites loops over products of whole float32 numbers. producers: the operations that define values."""

    facts: Facts
    threads: int
    producers: Mapping[ir.Value, ir.Operation]

    def operation(self, operation: ir.Operation) -> ir.Block:
        if isinstance(operation, ir.For) and (sums := self.match(operation)):
            rounds = _rounds(operation, self.facts)
            return _each_round(operation, sums) if rounds == 1 else _in_blocks(operation, sums, rounds)
        return (self.rebuilt(operation),)

    def match(self, loop: ir.For) -> tuple[SummedProduct, ...]:
        """Match a loop whose products are all summed up, and whose other variables are scalars; () for any other."""
        sums = tuple(filter(_is_exact, summed_products(loop, self.producers)))
        tiles = [argument for argument in loop.arguments if not argument.type.is_scalar]
        others = set(filter(is_dot, ir.walk(loop.body))) - {each.dot for each in sums}
        registers = sum(math.prod(each.sum.argument.type.lanes) for each in sums) // self.threads
        return sums if len(sums) == len(tiles) and not others and registers <= MOST_REGISTERS else ()


def _is_exact(each: SummedProduct) -> bool:
    return each.dot.attribute("input_precision") == "ieee" and each.sum.argument.type.dtype == float32


def _rounds(loop: ir.For, facts: Facts) -> Expr:
    """Return the number of rounds of a block."""
    if has_at_most(ROUNDS_PER_BLOCK - 1, loop, facts):
        return const(1)
    return simplify((loop.stop - loop.start) // loop.step // ROUNDS_PER_BLOCK + 1, facts)


def _each_round(loop: ir.For, sums: tuple[SummedProduct, ...]) -> ir.Block:
    """Add each product to the total by itself."""
    new: dict[ir.Operation, ir.Block] = {}
    for each in sums:
        total, product = each.sum.argument, ir.Value(each.dot.result.type)
        ones = _full(total, 1.0)
        dot = replace(each.dot, results=(product,), operands=each.dot.operands[:2])
        add = ir.Apply((each.sum.yielded,), "fma", (product, ones[1].result, total), location=each.add.location)
        new[each.dot] = (dot,)
        new[each.add] = (*(() if each.add is not each.dot else (dot,)), *ones, add)
    return (replace(loop, body=replaced(loop.body, new)),)


def _in_blocks(loop: ir.For, sums: tuple[SummedProduct, ...], rounds: Expr) -> ir.Block:
    """Add products to parts, and each part to its total where a block ends and after the loop."""
    before: list[ir.Operation] = []
    after: list[ir.Operation] = []
    adds: dict[ir.Operation, ir.Block] = {}
    own, parts = {each: each for each in loop.carried}, []
    totals, next_parts, ending, zeros = [], [], [], []
    for each in sums:
        total = each.sum.argument
        end, *values = (ir.Value(total.type, "part") for _ in range(4))
        (number, zero), (next_number, next_zero) = _full(total, 0.0), _full(total, 0.0)
        part, new_total, new_result = ir.Carried(zero.result, *values), _like(total), _like(total)
        before += [number, zero]
        adds[each.add] = (_reading(each.add, total, part.argument, end),)
        own[each.sum] = replace(each.sum, result=new_result)
        parts.append(part)
        ending.append(ir.Apply((new_total,), "add", (total, end)))
        zeros += [next_number, next_zero]
        totals.append(ir.Outcome(new_total, total, each.sum.yielded))
        next_parts.append(ir.Outcome(next_zero.result, end, part.yielded))
        after.append(ir.Apply((each.sum.result,), "add", (new_result, part.result)))
    position = var(loop.variable) // loop.step % rounds
    is_last, condition = compared("eq", position, rounds - 1, loop.bindings)
    end_of_block = ir.If(is_last, (*ending, *zeros), outcomes=(*totals, *next_parts))
    body = (*replaced(loop.body, adds), *condition, end_of_block)
    return (*before, replace(loop, carried=(*own.values(), *parts), body=body, merge=None), *after)


def _reading(add: ir.Apply, total: ir.Value, part: ir.Value, end: ir.Value) -> ir.Apply:
    """Add to `part`, giving `end`, where an addition adds to `total`."""
    return replace(add, results=(end,), operands=tuple(part if each is total else each for each in add.operands))


def _like(value: ir.Value) -> ir.Value:
    return ir.Value(value.type, value.hint)


def _full(total: ir.Value, value: float) -> tuple[ir.Constant, ir.Apply]:
    """Make a tile like a total, of one number."""
    number, tile = ir.Value(ir.TileType(float32)), ir.Value(total.type)
    return ir.Constant(number, value), ir.Apply((tile,), "full", (number,))

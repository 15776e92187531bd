"""Pass: a product of few rows is computed as its transpose, so that the long side fills the matrix instruction.

    total = zeros(16, 64)
    for k in range(steps):
        total = dot(a[k], b[k]) + total
->  turned = zeros(64, 16)
    for k in range(steps):
        turned = dot(trans(b[k]), trans(a[k])) + turned
    total = trans(turned)

An instruction of Hopper's (wgmma) has 64 rows and any multiple of 8 columns, and reads both operands from shared
memory. A tile of 16 rows has none: its operands go through registers, and fewer loads are in flight. Memory is what
such a product waits for: on an H200, with 1 to 16 rows and the weights of Llama models, it takes .95 of cuBLAS's time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ninetoothed import ir

# The rows of the instruction, and the most rows of a tile that are turned into columns.
INSTRUCTION_ROWS = 64
MOST_ROWS = 32

_Producers = dict[ir.Value, ir.Operation]


def swap(program: ir.Program) -> ir.Program | None:
    """Return the program with each loop that sums up such a product turned; None where there is none."""
    producers = {result: operation for operation in ir.walk(program.body) for result in ir.results(operation)}
    body = _block(program.body, producers)
    return None if body == program.body else replace(program, body=body)


def _block(block: ir.Block, producers: _Producers) -> ir.Block:
    operations: list[ir.Operation] = []
    for operation in block:
        nested = ir.with_blocks(operation, lambda inner: _block(inner, producers))
        match = _match(operation, producers) if isinstance(operation, ir.For) else None
        if match is not None:
            operations += _turned(match, producers)
        elif ir.blocks(nested) == ir.blocks(operation):
            operations.append(operation)
        else:
            operations.append(nested)
    return tuple(operations)


@dataclass(frozen=True)
class _Sum:
    """A loop that only adds a product, `dot`, to a tile, by `add`."""

    loop: ir.For
    add: ir.Apply
    dot: ir.Apply


def _match(loop: ir.For, producers: _Producers) -> _Sum | None:
    """Match a loop that sums up products of few rows and many columns."""
    if len(loop.arguments) != 1:
        return None
    (total,), (end,) = loop.arguments, loop.yields
    lanes = total.type.lanes
    if len(lanes) != 2 or lanes[0] > MOST_ROWS or lanes[1] < INSTRUCTION_ROWS:
        return None
    match producers.get(end):
        case ir.Apply(function="add", operands=(product, other)) as add if other is total:
            pass
        case ir.Apply(function="add", operands=(other, product)) as add if other is total:
            pass
        case _:
            return None
    match producers.get(product):
        case ir.Apply(function="dot", operands=(lhs, _)) as dot if lhs.type.dtype.bits <= 16:
            pass
        case _:
            return None
    read = [value for operation in ir.walk(loop.body) for value in ir.operands(operation)]
    is_own = add in loop.body and dot in loop.body and read.count(total) == read.count(product) == 1
    return _Sum(loop, add, dot) if is_own else None


def _turned(match: _Sum, producers: _Producers) -> list[ir.Operation]:
    loop, add, dot = match.loop, match.add, match.dot
    (initial,), (total,), (end,), (result,) = loop.initial, loop.arguments, loop.yields, loop.results
    first = _start(initial, producers)
    lhs, rhs = map(_transpose, dot.operands)
    product, argument, after, final = map(_transposed, (dot.result, total, end, result))
    new: dict[ir.Operation, ir.Block] = {
        dot: (rhs, lhs, replace(dot, results=(product,), operands=(rhs.result, lhs.result))),
        add: (replace(add, results=(after,), operands=(product, argument)),),
    }
    body = tuple(each for operation in loop.body for each in new.get(operation, (operation,)))
    sum_of_columns = replace(
        loop, initial=(first.result,), arguments=(argument,), body=body, yields=(after,), results=(final,)
    )
    return [first, sum_of_columns, ir.Apply((result,), "permute", (final,), (("dims", (1, 0)),))]


def _start(initial: ir.Value, producers: _Producers) -> ir.Apply:
    """Make the transpose of the value that a sum starts from."""
    match producers.get(initial):
        case ir.Apply(function="full") as full:
            return replace(full, results=(_transposed(initial),))
    return _transpose(initial)


def _transpose(value: ir.Value) -> ir.Apply:
    return ir.Apply((_transposed(value),), "permute", (value,), (("dims", (1, 0)),))


def _transposed(value: ir.Value) -> ir.Value:
    """Return a new value of the transpose's type."""
    type = replace(value.type, shape=value.type.shape[::-1], lanes=value.type.lanes[::-1])
    return ir.Value(type, value.hint)

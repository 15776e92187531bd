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

from dataclasses import dataclass, replace

from ninetoothed import ir

# The rows of the instruction, and the most rows of a tile that are turned into columns.
INSTRUCTION_ROWS = 64
MOST_ROWS = 32

_Producers = dict[ir.Value, ir.Operation]


def swap(program: ir.Program) -> ir.Program | None:
    """Return the program with each loop that sums up such a product turned; None where there is none."""
    producers = {result: operation for operation in ir.walk(program.body) for result in ir.results(operation)}
    body = _Swapper(producers=producers).block(program.body)
    return None if body == program.body else replace(program, body=body)


@dataclass(kw_only=True)
class _Swapper(ir.Rewriter):
    """Turns loops that sum up products of few rows. producers: the operations that define values."""

    producers: _Producers

    def operation(self, operation: ir.Operation) -> ir.Block:
        if isinstance(operation, ir.For) and (sums := _match(operation, self.producers)):
            return _turned(operation, sums, self.producers)
        return (self.rebuilt(operation),)


@dataclass(frozen=True)
class _Sum:
    """A variable of a loop to which each round adds a product, `dot`, by `add`: what it starts from, and ends as."""

    initial: ir.Value
    total: ir.Value
    result: ir.Value
    add: ir.Apply
    dot: ir.Apply


def _match(loop: ir.For, producers: _Producers) -> tuple[_Sum, ...]:
    """Match a loop that does nothing but sum up products of few rows and many columns; () for any other."""
    if loop.merge is not None:
        return ()  # It takes variables of the shapes that they have.
    read = [value for operation in ir.walk(loop.body) for value in ir.operands(operation)]
    variables = zip(loop.initial, loop.arguments, loop.yields, loop.results, strict=True)
    sums = tuple(_sum(loop, read, producers, *variable) for variable in variables)
    return tuple(each for each in sums if each is not None) if None not in sums else ()


def _sum(
    loop: ir.For,
    read: list[ir.Value],
    producers: _Producers,
    initial: ir.Value,
    total: ir.Value,
    end: ir.Value,
    result: ir.Value,
) -> _Sum | None:
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
    is_own = add in loop.body and dot in loop.body and read.count(total) == read.count(product) == 1
    return _Sum(initial, total, result, add, dot) if is_own else None


def _turned(loop: ir.For, sums: tuple[_Sum, ...], producers: _Producers) -> ir.Block:
    before: list[ir.Apply] = []
    after: list[ir.Apply] = []
    arguments, yields = [], []
    new: dict[ir.Operation, ir.Block] = {}
    for each in sums:
        before.append(_start(each.initial, producers))
        lhs, rhs = map(_transpose, each.dot.operands)
        values = (each.dot.result, each.total, each.add.result, each.result)
        product, argument, end, final = map(_transposed, values)
        new[each.dot] = (rhs, lhs, replace(each.dot, results=(product,), operands=(rhs.result, lhs.result)))
        new[each.add] = (replace(each.add, results=(end,), operands=(product, argument)),)
        arguments.append(argument)
        yields.append(end)
        after.append(ir.Apply((each.result,), "permute", (final,), (("dims", (1, 0)),)))
    body = tuple(each for operation in loop.body for each in new.get(operation, (operation,)))
    sums_of_columns = replace(
        loop,
        initial=tuple(start.result for start in before),
        arguments=tuple(arguments),
        body=body,
        yields=tuple(yields),
        results=tuple(turned.operands[0] for turned in after),
    )
    return (*before, sums_of_columns, *after)


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

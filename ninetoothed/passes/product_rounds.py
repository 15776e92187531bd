"""Take loops over two products apart, the second of which depends on the first: attention, and what is like it.

for j in range(n):
    scores = dot(query, key[j])                       first
    peak, weights = f(scores, peak)                   middle
    total = g(total, peak)                            scaling
    total = total + dot(weights, value[j])            second
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeGuard

from ninetoothed import ir
from ninetoothed.expr import Expr, Facts, var
from ninetoothed.ir.lanes import with_lanes
from ninetoothed.ir.rewriter import access_at
from ninetoothed.passes.dead_code import remove_dead
from ninetoothed.passes.operations import is_dot, is_fold, producers, readers, replaced
from ninetoothed.passes.products import Feeds
from ninetoothed.passes.trip_count import is_at_least


@dataclass(frozen=True)
class Round:
    """The parts of a loop's body.

    first, second: the products, each with what loads its right operand. total: which of the loop-carried variables the
    second is added to. scaling: the operations on that variable, and middle: all others. weights, scaled: the values
    from either that the second takes.
    """

    loop: ir.For
    first: ir.Block
    middle: ir.Block
    scaling: ir.Block
    second: ir.Block
    total: int
    weights: ir.Value
    scaled: ir.Value

    @property
    def scores(self) -> ir.Value:
        """The first product."""
        (result,) = ir.results(self.first[-1])
        return result

    @property
    def sum(self) -> ir.Value:
        """The total with the second product."""
        (result,) = ir.results(self.second[-1])
        return result

    def without_total(self, values: tuple[ir.Value, ...]) -> tuple[ir.Value, ...]:
        """Leave out the one of some loop-carried values that the second product is added to."""
        return (*values[: self.total], *values[self.total + 1 :])


def rounds_of(program: ir.Program) -> tuple[Round, ...]:
    """Take the loops of a program apart; () where they are not all of this form."""
    loops = [operation for operation in program.body if ir.blocks(operation)]
    rounds = [_match(loop) for loop in loops if isinstance(loop, ir.For)]
    found = tuple(each for each in rounds if each is not None)
    if not found or len(found) < len(loops) or not _follow_each_other(found, program):
        return ()
    return tuple(_reading_as(each, found[-1]) for each in found)


def _reading_as(own: Round, last: Round) -> Round:
    """Read the operands of a round as those of the last loop are read: under guards that hold in all rounds before."""
    counters = {last.loop.variable: var(own.loop.variable)}

    def block(block: ir.Block, other: ir.Block) -> ir.Block:
        accesses = (access_at(load.access, lambda e: e.subs(counters)) for load in _loads(other))
        return tuple(replace(each, access=next(accesses)) if isinstance(each, ir.Load) else each for each in block)

    return replace(own, first=block(own.first, last.first), second=block(own.second, last.second))


def _match(loop: ir.For) -> Round | None:
    """Take the body of a loop over two products apart; None for any other."""
    defined_by = producers(loop.body)
    dots = [operation for operation in loop.body if is_dot(operation) and len(operation.operands) == 2]
    is_counted = loop.step == 1 and loop.merge is None
    if len(dots) != 2 or not is_counted or not all(map(_is_plain, loop.body)):
        return None
    for total, end in enumerate(loop.yields):
        match defined_by.get(end):
            case ir.Apply(function="add", operands=operands) as add:
                for product, scaled in (operands, operands[::-1]):
                    found = _taken_apart(loop, dots, add, product, scaled, total, defined_by)
                    if found is not None:
                        return found
    return None


def _taken_apart(
    loop: ir.For,
    dots: Sequence[ir.Apply],
    add: ir.Apply,
    product: ir.Value,
    scaled: ir.Value,
    total: int,
    defined_by: Mapping[ir.Value, ir.Operation],
) -> Round | None:
    """Take a body apart whose `total` is `add`, of `scaled` and the second `product`."""
    second = defined_by.get(product)
    if second not in dots or not is_dot(second):
        return None
    (first,) = (dot for dot in dots if dot is not second)
    feeds = Feeds(loop.body)
    loads = [_loading(dot.operands[1], feeds) for dot in (first, second)]
    places = [_place(loop, each) for each in loads]
    is_inside = first.operands[0] in defined_by or second.operands[0] not in defined_by
    if is_inside or not all(loads) or places[0] is None or places[1] is None:
        return None
    scaling = _made_of(loop.arguments[total], _without(loop.body, (add,)))
    middle = _without(loop.body, (first, second, add), scaling, *loads)
    made = {value for operation in scaling for value in ir.results(operation)}
    kept = [value for value in loop.yields if value is not loop.yields[total]]
    read = [value for operation in (*middle, *loads[0], *loads[1], first, second) for value in ir.reads(operation)]
    reads = [value for operation in loop.body for value in ir.reads(operation)]
    is_apart = not made & {*kept, *read} and scaled in (made or {loop.arguments[total]})
    is_once = reads.count(product) == 1 and not {product, add.result} & {*kept, *read}
    if not is_apart or not is_once or len(kept) + 1 < len(loop.yields):
        return None
    middle = _chosen_wide(second.operands[0], middle)
    narrowing, weights = _narrowing(second.operands[0], middle, kept)
    block = (*places[1], *loads[1], *narrowing, second, add)
    return Round(
        loop, (*places[0], *loads[0], first), _without(middle, narrowing), scaling, block, total, weights, scaled
    )


def _chosen_wide(weights: ir.Value, middle: ir.Block) -> ir.Block:
    """Choose weights before they are cast: `where(seen, cast(wide), 0)` -> `cast(where(seen, wide, 0))`."""
    defined_by = producers(middle)
    match defined_by.get(weights):
        case ir.Apply(function="where", operands=(condition, narrow, other)) as choice:
            cast, filled = defined_by.get(narrow), defined_by.get(other)
            if not (_is(cast, "cast") and _is(filled, "full")):
                return middle
            number = defined_by.get(filled.operands[0])
            if not isinstance(number, ir.Constant) or number.value != 0:
                return middle
            (wide,) = cast.operands
            zero, zeros, result = (_of_dtype(each, wide) for each in (number.result, other, weights))
            chosen: ir.Block = (
                replace(number, result=zero),
                replace(filled, operands=(zero,), results=(zeros,)),
                replace(choice, operands=(condition, wide, zeros), results=(result,)),
                replace(cast, operands=(result,), results=(weights,)),
            )
            return replaced(middle, {choice: chosen})
    return middle


def _of_dtype(value: ir.Value, other: ir.Value) -> ir.Value:
    """Return a new value of the element type of another."""
    return ir.Value(replace(value.type, dtype=other.type.dtype))


def _is(operation: ir.Operation | None, function: str) -> TypeGuard[ir.Apply]:
    return isinstance(operation, ir.Apply) and operation.function == function


def _narrowing(weights: ir.Value, middle: ir.Block, kept: Sequence[ir.Value]) -> tuple[ir.Block, ir.Value]:
    """Return a cast that only the second product needs, and the value that it casts, which whole registers carry."""
    for operation in middle:
        match operation:
            case ir.Apply(function="cast", operands=(wide,), results=(narrow,)) if narrow is weights:
                is_own = narrow not in kept and not any(narrow in ir.reads(each) for each in middle)
                return ((operation,), wide) if is_own else ((), weights)
    return (), weights


def _is_plain(operation: ir.Operation) -> bool:
    """Tell whether an operation is a load, or computes lane by lane, or row by row of a matrix."""
    match operation:
        case ir.Apply() if is_fold(operation):
            return len(operation.operands[0].type.lanes) == 2 and operation.axes.worked() == {1}
        case ir.Apply():
            primitive = operation.primitive
            return is_dot(operation) or primitive.is_map or (primitive.moves_lanes and primitive.moves is None)
    return isinstance(operation, ir.Load | ir.Constant | ir.ScalarArgument | ir.Index)


def _loading(value: ir.Value, feeds: Feeds) -> ir.Block:
    """Return the load of a tile that is used as it is in memory, and what turns it; () where it is no such tile."""
    return next(((feed.operation, *feed.path) for feed in feeds.of(value) if feed.is_turned), ())


def _place(loop: ir.For, loads: ir.Block) -> ir.Block | None:
    """Return the operations on numbers that tell where a tile is; None where it depends on rounds before.

    They are done for each product of its own, and again for what lies between.
    """
    places = [value for load in _loads(loads) for _, value in load.access.bindings]
    found = remove_dead(loop.body, places, lambda operation: False)
    read = {value for operation in found for value in ir.reads(operation)}
    is_own = read.isdisjoint(loop.arguments) and all(
        value.type.is_scalar for each in found for value in ir.results(each)
    )
    return found if is_own else None


def _made_of(value: ir.Value, block: ir.Block) -> ir.Block:
    """Return the operations for which a value is needed, one after the other."""
    made, found = {value}, []
    for operation in block:
        if made.intersection(ir.reads(operation)):
            made |= set(ir.results(operation))
            found.append(operation)
    return tuple(found)


def _without(block: ir.Block, *left_out: Container[ir.Operation]) -> ir.Block:
    return tuple(operation for operation in block if not any(operation in each for each in left_out))


def _follow_each_other(rounds: Sequence[Round], program: ir.Program) -> bool:
    """Tell whether each loop goes on with what the one before it leaves, on the tiles after those of that one."""
    first, read_by = rounds[0], readers(program.body)
    if rounds[1:] and not all(is_at_least(each.loop.stop, each.loop.start, program.facts) for each in rounds):
        return False
    for earlier, later in zip(rounds, rounds[1:], strict=False):
        one, other = earlier.loop, later.loop
        if other.initial != one.results or other.start != one.stop or later.total != first.total:
            return False
        if any(reader is not other for value in one.results for reader in read_by.get(value, ())):
            return False
        counters = {other.variable: var(one.variable)}
        for block, own in ((earlier.first, later.first), (earlier.second, later.second)):
            loads, others = list(_loads(block)), list(_loads(own))
            serves = partial(_serves, counters, program.facts)
            if len(loads) != len(others) or not all(map(serves, others, loads)):
                return False
        if ir.reads(later.first[-1])[0] is not ir.reads(earlier.first[-1])[0]:
            return False
    return True


def _loads(block: ir.Block) -> Iterator[ir.Load]:
    yield from (operation for operation in block if isinstance(operation, ir.Load))


def _serves(counters: Mapping[str, Expr], facts: Facts, load: ir.Load, earlier: ir.Load) -> bool:
    """Tell whether a load may stand for one of an earlier loop: it reads the same tile where its guards hold there.

    Loads are moved to rounds of the loop before, too.
    """
    own, other = access_at(load.access, lambda e: e.subs(counters)), earlier.access
    is_same = (own.parameter, own.other, own.type.lanes) == (other.parameter, other.other, other.type.lanes)
    more, lanes = set(own.guards) - set(other.guards), with_lanes(facts, other.lanes)
    is_same = is_same and own.indices == other.indices and set(other.guards) <= set(own.guards)
    return is_same and all(guard.holds(lanes) for guard in more)
